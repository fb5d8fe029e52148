"""One attempt to bring a link's file here: redirects, checks, limits, and the rest of a part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from itertools import chain

import httpcore

from pipeline.errors import OmnaiError
from pipeline.ledger.fetches import Version
from pipeline.link import Link, LinkRefused, follow
from pipeline.release import RELEASE
from worker.ingest.connect import CertificateRefused, Internet, NotPublic, Watch
from worker.ingest.kinds import HEAD_BYTES, refusal
from worker.ingest.sink import Sink
from worker.ingest.versions import Headers, is_rest, range_headers, read_date, version_of

REDIRECTS_MAX = 3

REDIRECTS = (301, 302, 303, 307, 308)

PASSING = (408, 425, 429)
"""Beside all from 500 on: the same question may be answered later."""

SIGN_IN = (401, 403, 407)

RETRY_AFTER_MAX_S = 600.0
"""A server that wants more is asked again all the same; the attempts and the time are bounded."""

_ASKED = (
    ("User-Agent", f"OmnAI/{RELEASE}"),
    ("Accept", "*/*"),
    # Packed bytes could be any number of unpacked ones, and no range of them could be asked for.
    ("Accept-Encoding", "identity"),
    ("Connection", "close"),
)


class FetchRefused(OmnaiError):
    """What the link leads to is not accepted; another attempt would not help."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class FetchFailed(OmnaiError):
    """The recording did not come this time; it may come another time."""

    def __init__(self, code: str, message: str, *, retry_after_s: float | None = None) -> None:
        self.code = code
        self.retry_after_s = retry_after_s
        super().__init__(message)


class _NotTheRest(OmnaiError):
    """What was answered is not the rest of what is here."""


def fetch(
    link: Link,
    sink: Sink,
    *,
    internet: Internet,
    watch: Watch,
    deadline: float,
    bytes_max: int,
    kept: Version | None = None,
    kept_bytes: int = 0,
) -> None:
    """Fill the sink with the whole file, or raise; what was received until then stays in it.

    `kept` names what `kept_bytes` of the sink's file are of; no more than these are relied on.
    `deadline` is the monotonic time until which it must all be here.

    Raises FetchRefused, FetchFailed, FetchStopped; lets OSError of the disk through.
    """
    if kept is not None and kept_bytes > 0:
        with suppress(_NotTheRest):
            _Attempt(internet, watch, deadline, bytes_max).run(link, sink, kept, kept_bytes)
            return
    _Attempt(internet, watch, deadline, bytes_max).run(link, sink, None, 0)


class _Attempt:
    """Follows the link to its file, and receives it."""

    def __init__(self, internet: Internet, watch: Watch, deadline: float, bytes_max: int) -> None:
        self._internet = internet
        self._watch = watch
        self._deadline = deadline
        self._bytes_max = bytes_max

    def run(self, link: Link, sink: Sink, kept: Version | None, kept_bytes: int) -> None:
        if kept is not None:
            try:
                sink.go_on(kept, from_bytes=kept_bytes, check=self._watch.check)
            except ValueError:
                raise _NotTheRest from None
            if kept_bytes == kept.total_bytes:
                return
        headers = [*_ASKED, *(range_headers(kept, start=kept_bytes) if kept else ())]
        for _ in range(REDIRECTS_MAX + 1):
            self._wait_at_most(self._watch.patience.answer_s)
            with _translated(), self._internet.ask(link, headers, self._watch) as answer:
                if answer.status not in REDIRECTS:
                    self._receive(answer, link, sink, kept, kept_bytes)
                    return
                link = _next(link, _headers(answer))
        raise FetchRefused(
            "link_redirects",
            f"the link leads on more than {REDIRECTS_MAX} times; give the recording's own link",
        )

    def _receive(
        self,
        answer: httpcore.Response,
        link: Link,
        sink: Sink,
        kept: Version | None,
        kept_bytes: int,
    ) -> None:
        headers = _headers(answer)
        _check_status(answer.status, headers, is_part_asked=kept is not None)
        is_part = answer.status == 206
        if is_part:
            assert kept is not None
            if not is_rest(kept, link, headers, start=kept_bytes):
                raise _NotTheRest
        elif answer.status != 200:
            raise _NotTheRest  # 416: what is here is no part of what is there
        _check_encoding(headers)
        length = _length(headers)
        expected = kept.total_bytes if is_part and kept is not None else length
        if expected is not None and expected > self._bytes_max:
            raise self._too_large()
        self._wait_at_most(self._watch.patience.window_s)
        chunks = answer.iter_stream()
        if not is_part:
            head, chunks = _head(chunks)
            refused = refusal(headers.get("content-type", ""), head)
            if refused is not None:
                raise FetchRefused(*refused)
            sink.begin(length, version_of(link, headers, total_bytes=length))
        self._write(chunks, sink, expected)
        sink.make_safe()

    def _write(self, chunks: Iterator[bytes], sink: Sink, expected: int | None) -> None:
        patience, come_bytes = self._watch.patience, 0
        for chunk in chunks:
            self._watch.check()
            size_bytes = sink.size_bytes + len(chunk)
            if size_bytes > self._bytes_max:
                raise self._too_large()
            if expected is not None and size_bytes > expected:
                raise _broken_off()
            sink.write(chunk)
            come_bytes += len(chunk)
            if come_bytes >= patience.window_bytes:
                self._wait_at_most(patience.window_s)
                come_bytes = 0
            elif time.monotonic() >= self._watch.until:
                raise _slow()  # what is read already must not hide how slowly it came
        if expected is not None and sink.size_bytes != expected:
            raise _broken_off()

    def _wait_at_most(self, wanted_s: float) -> None:
        self._watch.until = min(self._deadline, time.monotonic() + wanted_s)

    def _too_large(self) -> FetchRefused:
        return FetchRefused(
            "upload_too_large",
            f"the file is too large; at most {self._bytes_max} bytes are accepted",
        )


def _next(link: Link, headers: Headers) -> Link:
    try:
        return follow(link, headers.get("location", ""))
    except LinkRefused as refused:
        problem = refused.problems[0]
        raise FetchRefused(
            problem.code, f"the link leads on to another one that is refused: {problem.message}"
        ) from None


def _check_status(status: int, headers: Headers, *, is_part_asked: bool) -> None:
    if status == 200 or (is_part_asked and status in (206, 416)):
        return
    if status in PASSING or status >= 500:
        raise FetchFailed(
            "link_server_failed",
            f"the link's server answered {status}",
            retry_after_s=_retry_after_s(headers.get("retry-after", "")),
        )
    if status in SIGN_IN:
        message = "wants a sign-in; give a link that opens without one, or upload the recording"
    elif status in (404, 410):
        message = "has nothing there; look whether the link is whole and still valid"
    else:
        message = "gave no file; a link that answers with the recording itself would be accepted"
    raise FetchRefused("link_answer_refused", f"the link's server answered {status}: it {message}")


def _check_encoding(headers: Headers) -> None:
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise FetchRefused(
            "link_packed",
            "the link's server packs the file although it was asked not to; upload the recording",
        )


def _length(headers: Headers) -> int | None:
    """None for one that comes in pieces, whose end is told too. The reader of HTTP under this one
    has checked the number, and checks that so much comes."""
    if "transfer-encoding" in headers:
        return None
    if "content-length" not in headers:
        # It would end with the connection, and one that broke would look like a whole one.
        raise FetchRefused(
            "link_length_unknown",
            "the link's server does not say where the file ends; upload the recording",
        )
    return int(headers["content-length"].partition(",")[0])


def _retry_after_s(text: str) -> float | None:
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_MAX_S)
    at = read_date(text)
    if at is None:
        return None
    wanted_s = (at - datetime.now(timezone.utc)).total_seconds()
    return min(max(wanted_s, 0.0), RETRY_AFTER_MAX_S)


def _head(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all chunks with them."""
    first: list[bytes] = []
    for chunk in chunks:
        first.append(chunk)
        if sum(map(len, first)) >= HEAD_BYTES:
            break
    return b"".join(first)[:HEAD_BYTES], chain(first, chunks)


def _headers(answer: httpcore.Response) -> dict[str, str]:
    read: dict[str, str] = {}
    for raw_name, raw_value in answer.headers:
        name = raw_name.decode("latin-1").lower()
        try:
            value = raw_value.decode("utf-8")
        except UnicodeDecodeError:
            value = raw_value.decode("latin-1")
        read[name] = f"{read[name]}, {value}" if name in read else value
    return read


@contextmanager
def _translated() -> Iterator[None]:
    """The network's errors as ours, without their text, which may name hosts and addresses."""
    try:
        yield
    except (NotPublic, CertificateRefused) as error:
        raise FetchRefused(error.code, error.message) from None
    except httpcore.TimeoutException:
        raise _slow() from None
    except httpcore.ConnectError:
        raise FetchFailed("link_unreachable", "the link's server could not be reached") from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise _broken_off() from None


def _slow() -> FetchFailed:
    return FetchFailed("link_slow", "the link's server did not answer in time, or sent too slowly")


def _broken_off() -> FetchFailed:
    return FetchFailed("link_broken_off", "the connection to the link's server broke off")
