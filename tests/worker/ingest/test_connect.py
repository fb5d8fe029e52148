"""Connections go to checked public addresses, under the name asked for, and nowhere else."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence

import httpcore
import pytest

from pipeline.link import Link, read_link
from tests.worker.ingest.servers import ELSEWHERE, HERE, NAME, World, once, whole
from worker.ingest import connect
from worker.ingest.addresses import unwrapped
from worker.ingest.connect import (
    CertificateRefused,
    FetchStopped,
    Internet,
    NotPublic,
    Patience,
    PublicBackend,
    Watch,
)

LINK = read_link(f"https://{NAME}/a.mp4")


def watch(is_over: Callable[[], bool] = lambda: False, **patience: float) -> Watch:
    return Watch(is_over, Patience(**patience))  # type: ignore[arg-type]


def ask(internet: Internet, link: Link = LINK, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    with internet.ask(link, headers, watch()) as answer:
        return b"".join(answer.iter_stream())


def test_the_name_is_kept_for_the_server_and_the_certificate(world: World) -> None:
    server = world.serve(once(whole(b"bytes")))
    assert ask(world.internet(), headers=[("Accept", "*/*")]) == b"bytes"
    (asked,) = server.asked
    assert asked.line == "GET /a.mp4 HTTP/1.1"
    assert asked.headers == {"host": NAME, "accept": "*/*"}
    assert server.names == [NAME]
    assert world.resolved == [NAME]


def test_a_certificate_for_another_name_is_refused(world: World) -> None:
    server = world.serve(once(whole(b"bytes")), certified=["other.test", HERE])
    with pytest.raises(CertificateRefused):
        ask(world.internet())
    assert server.asked == []


def test_a_certificate_of_an_unknown_authority_is_refused(world: World) -> None:
    server = world.serve(once(whole(b"bytes")))
    with pytest.raises(CertificateRefused):
        ask(world.internet(tls=None))
    assert server.asked == []


@pytest.mark.parametrize(
    "answered",
    [
        [ELSEWHERE],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.2"],
        ["64:ff9b::a9fe:a9fe"],
        ["2002:a9fe:a9fe::1"],
        ["fe80::1%lo"],
        [HERE, ELSEWHERE],
        [ELSEWHERE, HERE],
        [HERE, "8.8.8.8", "fd00:ec2::254"],
        [HERE, "no address"],
        [],
    ],
    ids=str,
)
def test_one_address_that_is_not_public_is_enough(world: World, answered: list[str]) -> None:
    server = world.serve(once(whole(b"secret")))
    world.answers[NAME] = [answered]
    with pytest.raises(NotPublic):
        ask(world.internet())
    assert server.asked == []


def test_a_resolver_that_changes_its_answer_is_asked_only_once(world: World) -> None:
    server = world.serve(once(whole(b"public")))
    world.answers[NAME] = [[HERE], [ELSEWHERE]]
    assert ask(world.internet()) == b"public"
    assert world.resolved == [NAME]
    assert len(server.asked) == 1
    with pytest.raises(NotPublic):  # the next connection has its own check
        ask(world.internet())


def test_only_the_address_that_was_checked_is_connected_to(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.serve(once(whole(b"bytes")))
    tried: list[object] = []
    connect_as_before = socket.socket.connect

    def noted(self: socket.socket, address: object) -> None:
        tried.append(address)
        connect_as_before(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", noted)
    ask(world.internet())
    assert tried == [(HERE, world.port)]


def test_a_connection_that_ends_elsewhere_is_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world.serve(once(whole(b"bytes")))
    opened = httpcore.SyncBackend().connect_tcp(HERE, world.port)
    opened.close()
    stream, told = type(opened), type(opened).get_extra_info

    def lying(self: object, info: str) -> object:
        return (ELSEWHERE, 1) if info == "server_addr" else told(self, info)

    monkeypatch.setattr(stream, "get_extra_info", lying)
    with pytest.raises(NotPublic):
        ask(world.internet())
    assert server.asked == []


SPELLINGS = [
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "0",
    "127.0.0.1",
    "localhost",
]


@pytest.mark.parametrize("host", SPELLINGS)
def test_however_this_machine_is_spelt_the_systems_resolver_gives_it_away(host: str) -> None:
    # With the product's own resolver and tables, and no port of a test.
    with pytest.raises(NotPublic):
        ask(Internet(), read_link(f"https://{host}/"))


@pytest.mark.parametrize("host", ["①②⑦.⓪.⓪.①", "127。0。0。1", "[::1]"])
def test_nor_does_a_spelling_help_that_a_link_may_not_have(host: str) -> None:
    with pytest.raises(NotPublic):
        ask(Internet(), Link(host="x.test", target="/"))
    backend = PublicBackend(watch())
    with pytest.raises(NotPublic):
        backend.connect_tcp(host.strip("[]"), 443)


def test_a_name_that_nobody_knows_is_not_told_from_an_inner_one(world: World) -> None:
    with pytest.raises(NotPublic) as unknown:
        ask(world.internet(), read_link("https://nowhere.test/"))
    world.answers[NAME] = [["10.0.0.1"]]
    with pytest.raises(NotPublic) as inner:
        ask(world.internet())
    assert unknown.value.message == inner.value.message
    assert unknown.value.code == inner.value.code


def test_a_resolver_in_trouble_is_another_thing(world: World) -> None:
    def troubled(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "later")

    with pytest.raises(httpcore.ConnectError):
        ask(world.internet(resolve=troubled))


def test_no_other_port_is_connected_to() -> None:
    with pytest.raises(NotPublic):
        PublicBackend(
            watch(), resolve=lambda host, port: pytest.fail("asked"), is_allowed=lambda _: True
        ).connect_tcp(NAME, 80)


def test_no_proxy_of_the_environment_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = world.serve(once(whole(b"bytes")))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://{ELSEWHERE}:1")
    assert ask(world.internet()) == b"bytes"
    assert len(server.asked) == 1


def test_the_next_address_is_tried_where_one_does_not_answer(world: World) -> None:
    world.serve(once(whole(b"bytes")))
    world.answers[NAME] = [["::1", HERE]]  # nobody listens on the first
    internet = world.internet(is_allowed=lambda address: str(address) in ("::1", HERE))
    assert ask(internet) == b"bytes"


def test_an_ipv4_address_in_ipv6s_clothes_is_connected_to_without_them(world: World) -> None:
    world.serve(once(whole(b"bytes")))
    world.answers[NAME] = [["::ffff:127.0.0.1"]]
    internet = world.internet(is_allowed=lambda address: "127.0.0.1" in str(unwrapped(address)))
    assert ask(internet) == b"bytes"


def test_a_resolver_that_hangs_is_not_waited_for(world: World) -> None:
    leave = threading.Event()

    def hanging(host: str, port: int) -> Sequence[str]:
        leave.wait(30)
        return [HERE]

    internet = world.internet(resolve=hanging)
    began = time.monotonic()
    with (
        pytest.raises(httpcore.ConnectTimeout),
        internet.ask(LINK, (), watch(connect_s=0.3)),
    ):
        pass
    with pytest.raises(FetchStopped), internet.ask(LINK, (), watch(lambda: True)):
        pass
    leave.set()
    assert time.monotonic() - began < 20


def test_the_library_sends_nothing_that_was_not_given(world: World) -> None:
    server = world.serve(once(whole(b"a", Set_Cookie="id=1"), b""))
    internet = world.internet()
    ask(internet)
    ask(internet)
    assert [asked.headers for asked in server.asked] == [{"host": NAME}, {"host": NAME}]


def test_the_certificates_of_the_system_are_trusted_and_checked() -> None:
    tls = Internet()._tls
    assert tls.check_hostname
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert connect.resolve(HERE, 443) == [HERE]
