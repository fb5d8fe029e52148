"""Which addresses belong to the public internet: tables of our own, each row with its source.

Python's `is_global` is no filter: what it says differs between its releases, and for multicast,
6to4, NAT64 and site-local addresses it has said yes.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, kw_only=True)
class Special4:
    """IPv4 addresses that nobody may be led to."""

    network: IPv4Network
    name: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Special6:
    """IPv6 addresses that nobody may be led to."""

    network: IPv6Network
    name: str
    source: str


def _four(network: str, name: str, source: str) -> Special4:
    return Special4(network=IPv4Network(network), name=name, source=source)


def _six(network: str, name: str, source: str) -> Special6:
    return Special6(network=IPv6Network(network), name=name, source=source)


IPV4_REFUSED: tuple[Special4, ...] = (
    _four("0.0.0.0/8", "this network", "RFC 791, 3.2; RFC 1122, 3.2.1.3"),
    _four("10.0.0.0/8", "private", "RFC 1918"),
    # Alibaba's metadata, 100.100.100.200, is one of these.
    _four("100.64.0.0/10", "carrier-grade NAT", "RFC 6598"),
    _four("127.0.0.0/8", "loopback", "RFC 1122, 3.2.1.3"),
    # 169.254.169.254 and its neighbours are most clouds' metadata.
    _four("169.254.0.0/16", "link-local", "RFC 3927"),
    _four("172.16.0.0/12", "private", "RFC 1918"),
    # Oracle's metadata, 192.0.0.192, is one of these.
    _four("192.0.0.0/24", "protocol assignments", "RFC 6890, 2.1"),
    _four("192.0.2.0/24", "documentation", "RFC 5737"),
    _four("192.31.196.0/24", "AS112 sink", "RFC 7535"),
    _four("192.52.193.0/24", "multicast relays", "RFC 7450"),
    _four("192.88.99.0/24", "6to4 relays", "RFC 3068; RFC 7526"),
    _four("192.168.0.0/16", "private", "RFC 1918"),
    _four("192.175.48.0/24", "AS112 sink", "RFC 7534"),
    _four("198.18.0.0/15", "benchmarking", "RFC 2544"),
    _four("198.51.100.0/24", "documentation", "RFC 5737"),
    _four("203.0.113.0/24", "documentation", "RFC 5737"),
    _four("168.63.129.16/32", "cloud metadata", "Microsoft Azure, “What is IP 168.63.129.16?”"),
    _four("224.0.0.0/4", "multicast", "RFC 5771"),
    _four("240.0.0.0/4", "reserved, and broadcast", "RFC 1112, 4; RFC 919"),
)
"""Denied of IPv4: IANA's special-purpose registry with what is reserved or multicast, and the one
metadata service that lives at a public address."""

IPV6_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All that IANA has given out for global unicast (RFC 4291, 2.4). Everything else is refused by
being outside: `::` and `::1`, IPv4-compatible `::/96`, SIIT `::ffff:0:0:0/96`, NAT64 `64:ff9b::/96`
(RFC 6052) and `64:ff9b:1::/48` (RFC 8215), discard-only `100::/64` (RFC 6666), `5f00::/16`
(RFC 9602), unique-local `fc00::/7` with the clouds' metadata in it (RFC 4193), link-local
`fe80::/10`, site-local `fec0::/10` (RFC 3879) and multicast `ff00::/8`."""

IPV6_REFUSED: tuple[Special6, ...] = (
    # Teredo, ORCHID, benchmarking and the other assignments below 2001:200:: lie in it.
    _six("2001::/23", "protocol assignments", "RFC 2928; RFC 4380, RFC 4843, RFC 5180, RFC 7343"),
    _six("2001:db8::/32", "documentation", "RFC 3849"),
    _six("2002::/16", "6to4", "RFC 3056; RFC 7526"),
    _six("2620:4f:8000::/48", "AS112 sink", "RFC 7534"),
    _six("3ffe::/16", "6bone, given back", "RFC 3701"),
    _six("3fff::/20", "documentation", "RFC 9637"),
)
"""Denied of IPv6 inside the global unicast space."""

IPV4_MAPPED = IPv6Network("::ffff:0:0/96")
"""IPv4 in IPv6's clothes (RFC 4291, 2.5.5.2): the system connects by IPv4, so that table counts."""

_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The upper half of an interface identifier that carries an IPv4 address (RFC 5214, 6.1): the
packet would go to that address, whatever the prefix in front of it."""


def is_public(address: Address) -> bool:
    """Whether a stranger's link may lead a connection of ours there."""
    address = unwrapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in special.network for special in IPV4_REFUSED)
    if address.scope_id is not None or address not in IPV6_GLOBAL_UNICAST:
        return False
    if any(address in special.network for special in IPV6_REFUSED):
        return False
    return (int(address) >> 32) & 0xFFFF_FFFF not in _ISATAP


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv4-mapped one is."""
    if isinstance(address, IPv6Address) and address in IPV4_MAPPED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def read_address(text: str) -> Address | None:
    """What a resolver answered; none for what is no plain numeric address.

    With a zone (`fe80::1%eth0`) it leads to one link of this machine, and is none either.
    """
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None
