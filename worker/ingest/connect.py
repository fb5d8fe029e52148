"""Connections to public addresses only: decided below TLS, where nothing can be asked anew."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpcore

from pipeline.errors import OmnaiError
from pipeline.link import HTTPS_PORT, Link
from worker.ingest.addresses import Address, is_public, read_address, unwrapped

ADDRESSES_MAX = 4
"""Of a host's addresses, so many are tried; another network path is rarely among later ones."""

SLICE_S = 0.25
"""How long a wait goes without a look at whether to leave."""

Resolve = Callable[[str, int], Sequence[str]]
"""A host's addresses as numeric text, by one question to the resolver. Raises OSError."""


class NotPublic(OmnaiError):
    """The link's host has no address on the public internet; upload the recording instead."""

    code = "link_not_public"


class CertificateRefused(OmnaiError):
    """The link's server has no valid certificate for its name."""

    code = "link_certificate_refused"


class FetchStopped(OmnaiError):
    """Somebody asked this fetch to end."""

    code = "fetch_stopped"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long the other side may keep us waiting, in seconds; each with its reason."""

    connect_s: float = 15.0
    """For a host's name and a connection; the TLS handshake has as long again."""
    answer_s: float = 60.0
    """From the question to the last header line: storage that is asleep takes half of it."""
    silence_s: float = 30.0
    """Longest without a byte while one is waited for."""
    window_s: float = 60.0
    window_bytes: int = 2 * 1024**2
    """So much of the file has to come in each window, about 35 kB/s: slower, an hour of a phone's
    recording would not come in a night."""
    total_s: float = 6 * 3600
    """From the first attempt until the whole file is here: the largest one at 3 MB/s."""


class Watch:
    """Until when the other side may keep us waiting, and whether we still want to; of one fetch.

    `until` is moved on by whoever sees that enough has come.
    """

    def __init__(self, is_over: Callable[[], bool], patience: Patience) -> None:
        self._is_over = is_over
        self.patience = patience
        self.until = float("inf")

    def check(self) -> None:
        """Raises FetchStopped."""
        if self._is_over():
            raise FetchStopped

    def left_s(self, wanted_s: float) -> float:
        """At most what is left until `until`; zero or less once that has passed."""
        return min(wanted_s, self.until - time.monotonic())


def resolve(host: str, port: int) -> Sequence[str]:
    """By the system's resolver, once. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[4][0]) for address in found]


class Internet:
    """How the ingest process reaches the public internet, and nothing else.

    It reads no proxy from the environment, sends no credentials and keeps no cookies.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
        is_allowed: Callable[[Address], bool] = is_public,
        port: int | None = None,
    ) -> None:
        """Without arguments; they are there for tests: another authority, a resolver, addresses of
        this machine and the port on it."""
        self._tls = tls or ssl.create_default_context()
        self._resolve = resolve
        self._is_allowed = is_allowed
        self._port = port

    @contextmanager
    def ask(
        self, link: Link, headers: Sequence[tuple[str, str]], watch: Watch
    ) -> Iterator[httpcore.Response]:
        """One GET on a connection of its own, which ends with the block.

        Raises NotPublic, CertificateRefused, FetchStopped and httpcore's own.
        """
        backend = PublicBackend(
            watch, resolve=self._resolve, is_allowed=self._is_allowed, port=self._port
        )
        url = httpcore.URL(
            scheme=b"https",
            host=link.host.encode("ascii"),
            port=HTTPS_PORT,
            target=link.target.encode("ascii"),
        )
        request = httpcore.Request("GET", url, headers=[("Host", link.host), *headers])
        with httpcore.ConnectionPool(
            ssl_context=self._tls,
            max_connections=1,
            max_keepalive_connections=0,
            http1=True,
            http2=False,
            retries=0,
            network_backend=backend,
        ) as pool:
            answer = pool.handle_request(request)
            try:
                yield answer
            finally:
                answer.close()


class PublicBackend(httpcore.NetworkBackend):
    """Connects to an address only after all of its host's were seen to be public.

    The name is resolved once; what was checked is what is connected to. TLS above it keeps the
    name: for the server, for the certificate, and in the request.
    """

    def __init__(
        self,
        watch: Watch,
        *,
        resolve: Resolve = resolve,
        is_allowed: Callable[[Address], bool] = is_public,
        port: int | None = None,
    ) -> None:
        self._watch = watch
        self._resolve = resolve
        self._is_allowed = is_allowed
        self._port = port
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Raises NotPublic, FetchStopped and httpcore's own."""
        if port != HTTPS_PORT:
            raise NotPublic
        port = port if self._port is None else self._port
        deadline = time.monotonic() + self._watch.patience.connect_s
        addresses = self._public(self._resolved(host, port, deadline))
        failed: Exception = httpcore.ConnectTimeout()
        for address in addresses[:ADDRESSES_MAX]:
            left_s = self._watch.left_s(deadline - time.monotonic())
            if left_s <= 0:
                break
            try:
                return self._connected(address, port, left_s)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
            self._watch.check()
        raise failed

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        raise NotPublic

    def _resolved(self, host: str, port: int, deadline: float) -> Sequence[str]:
        """The system's resolver knows no deadline, so a thread of its own asks it."""
        answered: list[Sequence[str] | OSError | UnicodeError] = []

        def ask() -> None:
            try:
                answered.append(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                answered.append(error)

        asking = threading.Thread(target=ask, name="resolve", daemon=True)
        asking.start()
        while asking.is_alive():
            self._watch.check()
            left_s = self._watch.left_s(deadline - time.monotonic())
            if left_s <= 0:
                raise httpcore.ConnectTimeout
            asking.join(min(SLICE_S, left_s))
        answer = answered[0]
        if isinstance(answer, UnicodeError) or _is_unknown(answer):
            # As for an address that is not public: who asks shall not learn of inner names.
            raise NotPublic
        if isinstance(answer, OSError):
            raise httpcore.ConnectError
        return answer

    def _public(self, answered: Sequence[str]) -> Sequence[Address]:
        """All of them, where all are public: a mixed answer is an attempt to get inside."""
        addresses = [read_address(text) for text in answered]
        public = [found for found in addresses if found is not None and self._is_allowed(found)]
        if not addresses or len(public) != len(addresses):
            raise NotPublic
        return [unwrapped(found) for found in public]

    def _connected(self, address: Address, port: int, timeout_s: float) -> httpcore.NetworkStream:
        stream = self._inner.connect_tcp(str(address), port, timeout=timeout_s)
        try:
            reached = read_address(str(stream.get_extra_info("server_addr")[0]))
        except OSError as error:  # gone already
            stream.close()
            raise httpcore.ConnectError from error
        if reached is None or unwrapped(reached) != address:
            stream.close()
            raise NotPublic
        return _Watched(stream, self._watch)


class _Watched(httpcore.NetworkStream):
    """Waits in slices, so that somebody may say stop, and never past what the watch allows."""

    def __init__(self, stream: httpcore.NetworkStream, watch: Watch) -> None:
        self._stream = stream
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        silent_until = time.monotonic() + self._watch.patience.silence_s
        while True:
            self._watch.check()
            left_s = self._watch.left_s(silent_until - time.monotonic())
            if left_s <= 0:
                raise httpcore.ReadTimeout
            with suppress(httpcore.ReadTimeout):
                return self._stream.read(max_bytes, timeout=min(SLICE_S, left_s))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # One small request; it fits into any socket's buffer.
        self._watch.check()
        self._stream.write(
            buffer, timeout=max(self._watch.left_s(self._watch.patience.silence_s), 0.001)
        )

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left_s = max(self._watch.left_s(self._watch.patience.connect_s), 0.001)
        try:
            secured = self._stream.start_tls(ssl_context, server_hostname, timeout=left_s)
        except httpcore.ConnectError as error:
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise CertificateRefused from error
            raise
        return _Watched(secured, self._watch)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _is_unknown(answer: object) -> bool:
    """Whether the resolver knows that there is no such name, or none with an address."""
    nothing = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
    return isinstance(answer, socket.gaierror) and answer.errno in nothing
