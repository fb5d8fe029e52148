"""Which addresses are public, at every border of every special range."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest

from worker.ingest.addresses import is_public, read_address

# Written from IANA's special-purpose registries and the RFCs, and not from the tables under test.
IPV4_SPECIAL = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",  # multicast and, up to the last address of all, what is reserved
]
IPV6_SPECIAL = [
    "::/3",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3ffe::/16",
    "3fff::/20",
    "4000::/2",
    "8000::/1",
]

NAMED = {
    "this host": "0.0.0.0",
    "loopback": "127.0.0.1",
    "another loopback": "127.255.255.254",
    "private": "10.1.2.3",
    "carrier-grade NAT": "100.64.0.1",
    "metadata of Alibaba": "100.100.100.200",
    "metadata of most clouds": "169.254.169.254",
    "metadata of containers": "169.254.170.2",
    "metadata of Oracle": "192.0.0.192",
    "metadata of Azure": "168.63.129.16",
    "DNS64 discovery": "192.0.0.170",
    "dummy address": "192.0.0.8",
    "6to4 relay": "192.88.99.1",
    "benchmarking": "198.18.0.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "unspecified": "::",
    "loopback of IPv6": "::1",
    "IPv4-compatible loopback": "::127.0.0.1",
    "IPv4-compatible public": "::8.8.8.8",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped metadata": "::ffff:169.254.169.254",
    "mapped private": "::ffff:a00:1",
    "mapped broadcast": "::ffff:255.255.255.255",
    "translated (SIIT)": "::ffff:0:127.0.0.1",
    "translated public": "::ffff:0:8.8.8.8",
    "NAT64 of metadata": "64:ff9b::169.254.169.254",
    "NAT64 of a public one": "64:ff9b::8.8.8.8",
    "local NAT64": "64:ff9b:1::1",
    "discard-only": "100::1",
    "dummy prefix": "100:0:0:1::1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "port control anycast": "2001:1::1",
    "benchmarking of IPv6": "2001:2::1",
    "AMT": "2001:3::1",
    "ORCHID": "2001:10::1",
    "ORCHIDv2": "2001:20::1",
    "drone ids": "2001:30::1",
    "documentation of IPv6": "2001:db8::1",
    "6to4 of metadata": "2002:a9fe:a9fe::1",
    "6to4 of a public one": "2002:808:808::1",
    "AS112": "2620:4f:8000::42",
    "documentation, the newer": "3fff::1",
    "segment routing": "5f00::1",
    "unique local": "fd00::1",
    "metadata of Amazon": "fd00:ec2::254",
    "metadata of Google": "fd20:ce::254",
    "link-local": "fe80::1",
    "metadata by link-local": "fe80::a9fe:a9fe",
    "site-local": "fec0::1",
    "multicast of IPv6": "ff02::1",
    "the last one": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "ISATAP of loopback": "2a00:1450:4001::5efe:7f00:1",
    "ISATAP of a private one": "2a00:1450:4001:80b:0:5efe:a00:1",
    "ISATAP, its universal form": "2a00:1450:4001:80b:200:5efe:c0a8:1",
}

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "100.63.255.255",
    "168.63.129.15",
    "168.63.129.17",
    "::ffff:8.8.8.8",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff:1000::",
]


@pytest.mark.parametrize("address", NAMED.values(), ids=NAMED)
def test_no_link_leads_to_a_special_address(address: str) -> None:
    found = read_address(address)
    assert found is not None
    assert not is_public(found)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    found = read_address(address)
    assert found is not None
    assert is_public(found)


def inside(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return any(address in IPv4Network(special) for special in IPV4_SPECIAL)
    return any(address in IPv6Network(special) for special in IPV6_SPECIAL)


@pytest.mark.parametrize("special", IPV4_SPECIAL + IPV6_SPECIAL)
def test_a_range_ends_where_its_rule_says(special: str) -> None:
    network = IPv6Network(special) if ":" in special else IPv4Network(special)
    kind = type(network.network_address)
    first, last = int(network.network_address), int(network.broadcast_address)
    end = 2**network.max_prefixlen - 1
    checked = [first, last, *(n for n in (first - 1, last + 1) if 0 <= n <= end)]
    for number in checked:
        address = kind(number)
        assert is_public(address) == (not inside(address)), address
    assert not is_public(kind(first))
    assert not is_public(kind(last))


@pytest.mark.parametrize("special", IPV4_SPECIAL)
def test_a_mapped_address_is_as_public_as_the_one_it_carries(special: str) -> None:
    network = IPv4Network(special)
    for number in (int(network[0]) - 1, int(network[0]), int(network[-1]), int(network[-1]) + 1):
        if 0 <= number < 2**32:
            mapped = IPv6Address(0xFFFF_0000_0000 + number)
            assert is_public(mapped) == is_public(IPv4Address(number))


def test_every_first_byte_and_every_first_group_is_decided_as_its_rule_says() -> None:
    for byte in range(256):
        address = IPv4Address(f"{byte}.99.99.99")
        assert is_public(address) == (not inside(address)), address
    borders = [*range(0x1FFE, 0x2004), *range(0x3FFC, 0x4002), *range(0x5EFE, 0x5F02)]
    for group in [*range(0, 0x10000, 0x40), *borders]:
        six = IPv6Address((group << 112) + 0x1234)
        assert is_public(six) == (not inside(six)), six


@pytest.mark.parametrize(
    "text", ["fe80::1%eth0", "2606:4700::1%1", "127.1", "2130706433", "0x7f.1", "①.①.①.①", "", "a"]
)
def test_what_is_no_plain_numeric_address_is_none(text: str) -> None:
    assert read_address(text) is None


def test_an_address_that_belongs_to_one_link_is_refused_by_its_zone() -> None:
    assert not is_public(ip_address("2606:4700::1%eth0"))
