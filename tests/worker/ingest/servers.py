"""Real TLS servers of this machine that say what a test wants, under an authority of its own."""

from __future__ import annotations

import functools
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate

import trustme

from worker.ingest.addresses import Address, is_public
from worker.ingest.connect import Internet

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
"""Of this machine too; in no test is it allowed."""

NAME = "media.test"


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    line: str
    headers: Mapping[str, str]
    number: int
    """How many came before it."""

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


class Reset(Exception):
    """Breaks the connection where it is raised."""


Answer = Callable[[Asked], Iterator[bytes]]


@dataclass
class Server:
    """Answers each connection's one request with the bytes that `answer` gives, and closes it."""

    answer: Answer
    context: ssl.SSLContext
    asked: list[Asked] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """What each client wanted to be shown a certificate for."""
    _leave: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listening = socket.create_server((HERE, 0))
        self._listening.settimeout(0.05)
        self.port: int = self._listening.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self.context.sni_callback = lambda _, name, __: self.names.append(name)
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    @property
    def has_left(self) -> bool:
        return self._leave.is_set()

    def _serve(self) -> None:
        while not self._leave.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listening.accept()
                thread = threading.Thread(target=self._take, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        self._leave.set()
        self._serving.join(timeout=5)
        for thread in self._threads:
            thread.join(timeout=5)
        self._listening.close()

    def pause(self, seconds: float) -> None:
        """As long as the test runs, at most."""
        self._leave.wait(seconds)

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        with (
            connection,
            suppress(OSError),
            self.context.wrap_socket(connection, server_side=True) as secured,
        ):
            asked = _read(secured, len(self.asked))
            if asked is None:
                return
            self.asked.append(asked)
            try:
                for part in self.answer(asked):
                    secured.sendall(part)
            except Reset:
                linger = struct.pack("ii", 1, 0)
                secured.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return
            with suppress(OSError):
                secured.unwrap()


def _read(secured: ssl.SSLSocket, number: int) -> Asked | None:
    received = b""
    while b"\r\n\r\n" not in received:
        block = secured.recv(65536)
        if not block:
            return None
        received += block
    line, *fields = received.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (f.partition(": ") for f in fields)}
    return Asked(line=line, headers=headers, number=number)


class World:
    """An authority, servers under it, and a resolver that knows what the test told it."""

    def __init__(self) -> None:
        self.authority = _authority()
        self.servers: list[Server] = []
        self.answers: dict[str, list[Sequence[str]]] = {}
        """By host: what the resolver says the first time, the second …; the last for ever."""
        self.resolved: list[str] = []
        self.port = 0

    def serve(self, answer: Answer, *, certified: Sequence[str] = (NAME, "*.media.test")) -> Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _certificate(tuple(certified)).configure_cert(context)
        server = Server(answer, context)
        self.servers.append(server)
        self.port = server.port
        return server

    def internet(self, **given: object) -> Internet:
        """Where only this machine's first loopback address counts as public beside those that are;
        everything else is what the product has."""
        parts: dict[str, object] = {
            "tls": _trust(),
            "resolve": self.resolve,
            "is_allowed": is_allowed,
            "port": self.port,
        }
        return Internet(**(parts | given))  # type: ignore[arg-type]

    def resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        answers = self.answers.get(host)
        if answers is None:
            if host == NAME or host.endswith(f".{NAME}"):
                return [HERE]
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def close(self) -> None:
        for server in self.servers:
            server.close()


@functools.lru_cache(maxsize=1)
def _authority() -> trustme.CA:
    return trustme.CA()


@functools.lru_cache(maxsize=8)
def _certificate(names: tuple[str, ...]) -> trustme.LeafCert:
    return _authority().issue_cert(*names)


@functools.lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """The product's context, with the tests' authority beside the system's."""
    tls = ssl.create_default_context()
    _authority().configure_trust(tls)
    return tls


def is_allowed(address: Address) -> bool:
    return str(address) == HERE or is_public(address)


@contextmanager
def opened_world() -> Iterator[World]:
    world = World()
    try:
        yield world
    finally:
        world.close()


# --- answers -----------------------------------------------------------------------------------


def head(status: int = 200, **headers: object) -> bytes:
    """A status line and headers; underscores in names become dashes, None leaves one out."""
    lines = [f"HTTP/1.1 {status} As it is"]
    given = {"Date": formatdate(usegmt=True), "Content_Type": "video/mp4", **headers}
    for name, value in given.items():
        if value is not None:
            lines.append(f"{name.replace('_', '-')}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()


def whole(body: bytes, **headers: object) -> bytes:
    return head(**{"Content_Length": len(body), **headers}) + body


def file_of(body: bytes, **headers: object) -> Answer:
    """What a good server does with a file: ranges too, while the validator holds."""
    validator = headers.get("ETag", headers.get("Last_Modified"))

    def answer(asked: Asked) -> Iterator[bytes]:
        wanted = asked.headers.get("range")
        if wanted is None or asked.headers.get("if-range") != validator:
            yield whole(body, **headers)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(body):
            yield head(416, Content_Range=f"bytes */{len(body)}", Content_Length=0)
            return
        yield head(
            206,
            Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}",
            Content_Length=len(body) - start,
            **headers,
        )
        yield body[start:]

    return answer


def once(*parts: bytes) -> Answer:
    """The same bytes for everybody."""
    return lambda asked: iter(parts)
