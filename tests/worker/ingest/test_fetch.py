"""One attempt to fetch a link, against servers that are good, broken or hostile."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from pipeline.ledger.fetches import Version
from pipeline.link import Link, read_link
from tests.worker.ingest.servers import (
    NAME,
    Answer,
    Asked,
    Reset,
    World,
    file_of,
    head,
    once,
    whole,
)
from worker.ingest.connect import FetchStopped, Patience, Watch
from worker.ingest.fetch import RETRY_AFTER_MAX_S, FetchFailed, FetchRefused, fetch
from worker.ingest.sink import Sink, held
from worker.ingest.versions import place_sha256

LINK = read_link(f"https://{NAME}/a.mp4?sig=hush")
BODY = b"\0\0\0\x18ftypmp42" + Random(4).randbytes(300_000)
OTHER = b"\0\0\0\x18ftypisom" + Random(5).randbytes(300_000)
TAG = '"v1"'


@dataclass
class Try:
    """One file, and what was told of it while it came."""

    path: Path
    world: World
    told: list[tuple[int, int | None, Version | None]] = field(default_factory=list)
    is_wanted: bool = True
    is_over: Callable[[], bool] = lambda: False
    sha256: str = ""

    def fetch(
        self,
        link: Link = LINK,
        *,
        kept: Version | None = None,
        kept_bytes: int = 0,
        bytes_max: int = 1_000_000,
        total_s: float = 60.0,
        **patience: float,
    ) -> None:
        def tell(*progress: object) -> bool:
            self.told.append(progress)  # type: ignore[arg-type]
            return self.is_wanted

        with held(self.path) as file:
            assert file is not None
            sink = Sink(file, tell)
            try:
                fetch(
                    link,
                    sink,
                    internet=self.world.internet(),
                    watch=Watch(self.is_over, Patience(**patience)),  # type: ignore[arg-type]
                    deadline=time.monotonic() + total_s,
                    bytes_max=bytes_max,
                    kept=kept,
                    kept_bytes=kept_bytes,
                )
            finally:
                self.sha256 = sink.sha256

    @property
    def bytes(self) -> bytes:
        return self.path.read_bytes()

    def check(self, body: bytes) -> None:
        """It is all here, and what was told of it is true."""
        assert self.bytes == body
        assert self.sha256 == hashlib.sha256(body).hexdigest()
        assert self.told[-1][0] == len(body)


@pytest.fixture
def tried(world: World, tmp_path: Path) -> Try:
    return Try(path=tmp_path / "file", world=world)


def refused(tried: Try, code: str, **given: object) -> str:
    with pytest.raises(FetchRefused) as error:
        tried.fetch(**given)  # type: ignore[arg-type]
    assert error.value.code == code
    assert NAME not in error.value.message
    assert "hush" not in error.value.message
    return error.value.message


def failed(tried: Try, code: str, **given: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as error:
        tried.fetch(**given)  # type: ignore[arg-type]
    assert error.value.code == code
    assert NAME not in error.value.message
    return error.value


def version(link: Link = LINK, **given: object) -> Version:
    parts = {"validator": TAG, "total_bytes": len(BODY), "place_sha256": place_sha256(link)}
    return Version(**(parts | given))  # type: ignore[arg-type]


def chunked(body: bytes, size: int = 50_000) -> Iterator[bytes]:
    for at in range(0, len(body), size):
        part = body[at : at + size]
        yield b"%x\r\n%s\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


# --- the whole file ----------------------------------------------------------------------------


def test_a_file_comes_as_it_is(tried: Try) -> None:
    server = tried.world.serve(once(whole(BODY, ETag=TAG)))
    tried.fetch()
    tried.check(BODY)
    assert tried.told[0] == (0, len(BODY), version())
    (asked,) = server.asked
    assert asked.line == "GET /a.mp4?sig=hush HTTP/1.1"
    assert asked.headers["accept-encoding"] == "identity"
    assert not {"cookie", "authorization", "range", "referer"} & set(asked.headers)


def test_a_file_in_pieces_of_unknown_number_comes_too(tried: Try) -> None:
    tried.world.serve(once(head(Transfer_Encoding="chunked", ETag=TAG), *chunked(BODY)))
    tried.fetch()
    tried.check(BODY)
    assert tried.told[0] == (0, None, None)  # nothing could tell whether a rest belongs to it


def test_what_was_there_before_is_forgotten_first(tried: Try) -> None:
    tried.path.write_bytes(b"x" * 2 * len(BODY))
    tried.world.serve(once(whole(BODY)))
    tried.fetch()
    tried.check(BODY)


# --- redirects ---------------------------------------------------------------------------------


def leading(targets: dict[str, bytes]) -> Answer:
    return lambda asked: iter([targets[asked.target.partition("?")[0]]])


def to(location: str, status: int = 302) -> bytes:
    return head(status, Location=location, Content_Length=0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(tried: Try, status: int) -> None:
    server = tried.world.serve(leading({"/a.mp4": to("/b", status), "/b": whole(BODY)}))
    tried.fetch()
    tried.check(BODY)
    assert [asked.target for asked in server.asked] == ["/a.mp4?sig=hush", "/b"]


def test_three_redirects_are_followed_each_with_a_check_of_its_own(tried: Try) -> None:
    names = [NAME, f"b.{NAME}", f"c.{NAME}", f"d.{NAME}"]
    tried.world.serve(
        lambda asked: iter(
            [
                to(f"https://{names[asked.number + 1]}/{asked.number}")
                if asked.number < 3
                else whole(BODY)
            ]
        )
    )
    tried.fetch()
    tried.check(BODY)
    assert tried.world.resolved == names


def test_endless_redirects_end(tried: Try) -> None:
    server = tried.world.serve(once(to("/again")))
    refused(tried, "link_redirects")
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("location", "code"),
    [
        (f"http://{NAME}/b", "link_scheme_refused"),
        ("file:///etc/passwd", "link_scheme_refused"),
        (f"https://{NAME}:8443/b", "link_port_refused"),
        (f"https://me:pass@{NAME}/b", "link_credentials_refused"),
        (f"//{NAME}\\@127.0.0.2/b", "link_character_refused"),
        ("https://inner.test/b", "link_not_public"),
        ("https://169.254.169.254/latest/meta-data", "link_not_public"),
        ("https://2130706433/", "link_not_public"),
        ("https://[::1]/", "link_host_refused"),
        ("https://nowhere.test/", "link_not_public"),
    ],
)
def test_a_redirect_to_what_a_link_may_not_name_is_refused(
    tried: Try, location: str, code: str
) -> None:
    tried.world.answers = {
        "inner.test": [["127.0.0.2"]],
        "169.254.169.254": [["169.254.169.254"]],
        "2130706433": [["127.0.0.2"]],
    }
    server = tried.world.serve(once(to(location)))
    refused(tried, code)
    assert len(server.asked) == 1


def test_a_name_that_turns_inward_after_a_redirect_is_refused(tried: Try) -> None:
    tried.world.answers[NAME] = [["127.0.0.1"], ["127.0.0.2"]]
    server = tried.world.serve(once(to("/b")))
    refused(tried, "link_not_public")
    assert len(server.asked) == 1


# --- what is no recording ----------------------------------------------------------------------

PAGE = b"<!DOCTYPE html><html><body>Please sign in</body></html>"


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("text/html; charset=utf-8", PAGE, "link_is_page"),
        ("video/mp4", b"\xef\xbb\xbf \n<HTML lang=en>", "link_is_page"),
        ("text/html", b"Just a moment...", "link_is_page"),
        ("application/json", b'{"error": "no"}', "link_is_text"),
        ("text/plain", b"not found", "link_is_text"),
        ("video/mp4", "nicht verfügbar".encode("latin-1"), "link_is_text"),
        ("video/mp4", b"#EXTM3U\n#EXT-X-VERSION:3\n", "link_is_playlist"),
        ("video/mp4", b'<?xml version="1.0"?>\n<MPD xmlns="x">', "link_is_playlist"),
        ("video/mp4", b"ffconcat version 1.0\nfile a.mp4", "link_is_playlist"),
        ("application/vnd.apple.mpegurl", b"seg1.ts\n", "link_is_playlist"),
        ("text/html", PAGE.decode().encode("utf-16"), "link_is_page"),
        ("video/mp4", b"", "link_empty"),
    ],
)
def test_a_page_or_a_text_is_refused_by_what_it_is(
    tried: Try, kind: str, body: bytes, code: str
) -> None:
    tried.path.write_bytes(b"before")
    tried.world.serve(once(whole(body, Content_Type=kind)))
    refused(tried, code)
    assert tried.bytes == b"before"  # nothing of it was written


@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/octet-stream", "", None])
def test_the_bytes_of_a_recording_are_one_whatever_the_server_calls_them(
    tried: Try, kind: str | None
) -> None:
    tried.world.serve(once(whole(BODY, Content_Type=kind)))
    tried.fetch()
    tried.check(BODY)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "sign-in"),
        (403, "sign-in"),
        (404, "nothing there"),
        (410, "nothing there"),
        (400, "no file"),
        (204, "no file"),
        (206, "no file"),
        (300, "no file"),
        (304, "no file"),
        (416, "no file"),
    ],
)
def test_an_answer_without_a_file_is_refused(tried: Try, status: int, said: str) -> None:
    tried.world.serve(once(head(status, Content_Range="bytes 0-9/10"), b"0123456789"))
    message = refused(tried, "link_answer_refused")
    assert said in message
    assert str(status) in message


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "x-unknown"])
def test_packed_bytes_are_refused_unread(tried: Try, encoding: str) -> None:
    bomb = b"\x1f\x8b\x08\0" + bytes(5000)
    tried.world.serve(once(whole(bomb, Content_Encoding=encoding)))
    refused(tried, "link_packed")
    assert tried.bytes == b""


# --- size --------------------------------------------------------------------------------------


def test_a_file_that_says_it_is_too_large_is_refused_unread(tried: Try) -> None:
    tried.world.serve(once(head(Content_Length=10**12)))
    assert "300000 bytes" in refused(tried, "upload_too_large", bytes_max=300_000)
    assert tried.told == []


def test_a_file_that_turns_out_too_large_is_refused(tried: Try) -> None:
    tried.world.serve(once(head(Transfer_Encoding="chunked"), *chunked(BODY)))
    refused(tried, "upload_too_large", bytes_max=100_000)
    assert len(tried.bytes) <= 100_000


def test_a_file_of_exactly_the_limit_is_accepted(tried: Try) -> None:
    tried.world.serve(once(whole(BODY)))
    tried.fetch(bytes_max=len(BODY))
    tried.check(BODY)


def test_a_body_shorter_than_it_says_is_no_file(tried: Try) -> None:
    tried.world.serve(once(head(Content_Length=len(BODY) + 1, ETag=TAG), BODY))
    failed(tried, "link_broken_off")


def test_pieces_without_an_end_are_no_file(tried: Try) -> None:
    pieces = list(chunked(BODY))[:-1]
    tried.world.serve(once(head(Transfer_Encoding="chunked"), *pieces))
    failed(tried, "link_broken_off")


def test_a_body_longer_than_it_says_ends_where_it_says(tried: Try) -> None:
    tried.world.serve(once(head(Content_Length=1000), BODY))
    tried.fetch()
    tried.check(BODY[:1000])


def test_a_file_whose_end_nothing_tells_is_refused(tried: Try) -> None:
    tried.world.serve(once(head(), BODY))
    refused(tried, "link_length_unknown")


@pytest.mark.parametrize("length", ["-5", "1e3", "5, 6", "0x10", "", "9" * 5000])
def test_a_length_that_is_none_breaks_nothing(tried: Try, length: str) -> None:
    tried.world.serve(once(head(Content_Length=length), BODY))
    with pytest.raises((FetchFailed, FetchRefused)):
        tried.fetch()


# --- trouble that may pass ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520])
def test_a_server_in_trouble_may_be_asked_again(tried: Try, status: int) -> None:
    tried.world.serve(once(head(status, Content_Length=0)))
    assert failed(tried, "link_server_failed").retry_after_s is None


@pytest.mark.parametrize(
    ("said", "least_s", "most_s"),
    [
        ("7", 7, 7),
        ("0", 0, 0),
        ("999999999999", RETRY_AFTER_MAX_S, RETRY_AFTER_MAX_S),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MAX_S, RETRY_AFTER_MAX_S),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 0, 0),
    ],
)
def test_when_to_ask_again_is_heard_and_bounded(
    tried: Try, said: str, least_s: float, most_s: float
) -> None:
    tried.world.serve(once(head(429, Retry_After=said, Content_Length=0)))
    wanted_s = failed(tried, "link_server_failed").retry_after_s
    assert wanted_s is not None
    assert least_s <= wanted_s <= most_s


def test_a_reset_in_the_middle_keeps_what_came(tried: Try) -> None:
    def answer(asked: Asked) -> Iterator[bytes]:
        yield head(Content_Length=len(BODY), ETag=TAG)
        yield BODY[:200_000]
        time.sleep(0.2)
        raise Reset

    tried.world.serve(answer)
    failed(tried, "link_broken_off")
    assert BODY.startswith(tried.bytes)
    assert tried.told[0] == (0, len(BODY), version())


def test_a_server_that_does_not_listen_is_unreachable(tried: Try) -> None:
    server = tried.world.serve(once())
    server.close()
    failed(tried, "link_unreachable")


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 20", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000, b"\0" * 99],
    ids=["nothing", "a piece", "another protocol", "an endless header", "zeros"],
)
def test_what_is_no_http_is_a_failure(tried: Try, answer: bytes) -> None:
    tried.world.serve(once(answer))
    failed(tried, "link_broken_off")


def test_a_certificate_for_another_name_is_refused(tried: Try) -> None:
    tried.world.serve(once(whole(BODY)), certified=["other.test"])
    refused(tried, "link_certificate_refused")


# --- time --------------------------------------------------------------------------------------


def dripping(first: bytes, drop: bytes, server_of: Callable[[], World]) -> Answer:
    def answer(asked: Asked) -> Iterator[bytes]:
        yield first
        server = server_of().servers[-1]
        while not server.has_left:
            server.pause(0.05)
            yield drop

    return answer


PIECE = head(Transfer_Encoding="chunked") + b"800\r\n" + BODY[:2048]


@pytest.mark.parametrize(
    ("first", "drop", "patience"),
    [
        # Each byte comes soon enough; together they would never be enough.
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", {"answer_s": 0.5}),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", {"answer_s": 0.5}),
        (head(Content_Length=10**6) + BODY[:2000], b"x", {"window_s": 0.5}),
        (PIECE + b"\r\n1", b";", {"window_s": 0.5}),
        (head(Content_Length=10**6) + BODY[:2000], b"x", {"total_s": 0.5}),
    ],
    ids=["headers", "early hints", "body", "chunk extension", "the whole time"],
)
def test_a_server_that_drips_is_left(
    tried: Try, first: bytes, drop: bytes, patience: dict[str, float]
) -> None:
    tried.world.serve(dripping(first, drop, lambda: tried.world))
    began = time.monotonic()
    failed(tried, "link_slow", **patience)
    assert time.monotonic() - began < 15


def test_a_server_that_falls_silent_is_left(tried: Try) -> None:
    def answer(asked: Asked) -> Iterator[bytes]:
        yield head(Content_Length=10**6) + BODY[:2000]
        tried.world.servers[-1].pause(20)

    tried.world.serve(answer)
    began = time.monotonic()
    failed(tried, "link_slow", silence_s=0.3)
    assert time.monotonic() - began < 15


def test_a_slow_server_that_is_fast_enough_is_waited_for(tried: Try) -> None:
    def answer(asked: Asked) -> Iterator[bytes]:
        yield head(Content_Length=len(BODY))
        for at in range(0, len(BODY), 20_000):
            tried.world.servers[-1].pause(0.02)
            yield BODY[at : at + 20_000]

    tried.world.serve(answer)
    # Longer than a window in all, and never so long without a window's bytes.
    tried.fetch(window_s=5.0, window_bytes=20_000)
    tried.check(BODY)


def test_a_fetch_that_nobody_wants_any_more_ends_though_the_server_is_silent(tried: Try) -> None:
    over = threading.Event()

    def answer(asked: Asked) -> Iterator[bytes]:
        yield head(Content_Length=10**6) + BODY[:2000]
        threading.Timer(0.5, over.set).start()  # the client waits for more by then
        tried.world.servers[-1].pause(20)

    tried.world.serve(answer)
    tried.is_over = over.is_set
    with pytest.raises(FetchStopped):
        tried.fetch()


def test_a_fetch_that_was_taken_over_ends(tried: Try) -> None:
    tried.is_wanted = False
    tried.world.serve(once(whole(BODY)))
    with pytest.raises(FetchStopped):
        tried.fetch()
    assert tried.bytes == b""


# --- the rest of a part ------------------------------------------------------------------------

HALF = 150_000


def with_half(tried: Try) -> None:
    """What an attempt before has left: a part that was told to be safe, and some bytes after it."""
    tried.path.write_bytes(BODY[:HALF] + b"lost in a power cut")


def resumed(tried: Try, **given: object) -> None:
    tried.fetch(kept=version(**given), kept_bytes=HALF)


def test_only_the_rest_is_fetched_while_the_version_stands(tried: Try) -> None:
    with_half(tried)
    server = tried.world.serve(file_of(BODY, ETag=TAG))
    resumed(tried)
    tried.check(BODY)
    (asked,) = server.asked
    assert asked.headers["range"] == f"bytes={HALF}-"
    assert asked.headers["if-range"] == TAG


def test_the_rest_is_asked_for_by_a_date_where_there_is_no_tag(tried: Try) -> None:
    date = "Tue, 01 Sep 2026 10:00:00 GMT"
    server = tried.world.serve(file_of(BODY, Last_Modified=date))
    tried.fetch()
    assert tried.told[0] == (0, len(BODY), version(validator=date))
    with_half(tried)
    resumed(tried, validator=date)
    tried.check(BODY)
    assert server.asked[1].headers["if-range"] == date


def test_a_changed_file_is_fetched_from_its_start(tried: Try) -> None:
    with_half(tried)
    server = tried.world.serve(file_of(OTHER, ETag='"v2"'))
    resumed(tried)
    tried.check(OTHER)
    assert len(server.asked) == 1
    assert tried.told[0] == (0, len(OTHER), version(validator='"v2"', total_bytes=len(OTHER)))


def part(start: int, end: int, total: int | str, body: bytes, **headers: object) -> bytes:
    given: dict[str, object] = {
        "Content_Range": f"bytes {start}-{end}/{total}",
        "Content_Length": len(body),
        "ETag": TAG,
    }
    return head(206, **(given | headers)) + body


END = len(BODY) - 1
REST = BODY[HALF:]
WRONG_PARTS = {
    "of another version": part(HALF, END, len(BODY), OTHER[HALF:], ETag='"v2"'),
    "of a weak version": part(HALF, END, len(BODY), REST, ETag='W/"v1"'),
    "of an unnamed version": part(HALF, END, len(BODY), REST, ETag=None),
    "from elsewhere": part(HALF - 1, END, len(BODY), BODY[HALF - 1 :]),
    "from elsewhere, as long": part(HALF - 1, END - 1, len(BODY), BODY[HALF - 1 : -1]),
    "from the start": part(0, END, len(BODY), BODY),
    "not to the end": part(HALF, END - 1, len(BODY), REST[:-1]),
    "of another length": part(HALF, END, len(BODY) + 1, REST),
    "past the end": part(HALF, END + 1, len(BODY), REST + b"x"),
    "of unknown length": part(HALF, END, "*", REST),
    "without a place": part(HALF, END, len(BODY), REST, Content_Range=None),
    "of another unit": part(HALF, END, len(BODY), REST, Content_Range="seconds 1-2/3"),
    "in several pieces": part(
        HALF, END, len(BODY), REST, Content_Range=None, Content_Type="multipart/byteranges"
    ),
    "with another count": part(HALF, END, len(BODY), REST, Content_Length=len(REST) - 1),
    "not there": head(416, Content_Range=f"bytes */{len(BODY)}", Content_Length=0),
}


@pytest.mark.parametrize("wrong", WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_a_part_that_is_not_exactly_the_rest_is_not_taken(tried: Try, wrong: bytes) -> None:
    with_half(tried)
    server = tried.world.serve(
        lambda asked: iter([wrong if "range" in asked.headers else whole(BODY, ETag=TAG)])
    )
    resumed(tried)
    tried.check(BODY)
    assert ["range" in asked.headers for asked in server.asked] == [True, False]


def test_a_part_in_pieces_that_goes_on_too_long_is_no_rest(tried: Try) -> None:
    with_half(tried)
    first = part(HALF, END, len(BODY), b"", Content_Length=None, Transfer_Encoding="chunked")
    tried.world.serve(once(first, *chunked(REST + b"more")))
    with pytest.raises(FetchFailed):
        resumed(tried)
    assert len(tried.bytes) <= len(BODY)


def test_a_part_from_another_place_is_not_taken(tried: Try) -> None:
    with_half(tried)
    server = tried.world.serve(
        lambda asked: iter(
            [to("/elsewhere")] if asked.target == LINK.target else file_of(BODY, ETag=TAG)(asked)
        )
    )
    resumed(tried)
    tried.check(BODY)
    assert [asked.target for asked in server.asked] == [LINK.target, "/elsewhere"] * 2


def test_a_place_is_the_same_under_another_signature(tried: Try) -> None:
    with_half(tried)
    server = tried.world.serve(
        lambda asked: iter(
            [to("/real?sig=2")] if asked.target == LINK.target else file_of(BODY, ETag=TAG)(asked)
        )
    )
    resumed(tried, place_sha256=place_sha256(read_link(f"https://{NAME}/real?sig=9")))
    tried.check(BODY)
    assert len(server.asked) == 2


def test_nothing_is_asked_for_where_all_is_here(tried: Try) -> None:
    tried.path.write_bytes(BODY)
    tried.fetch(kept=version(), kept_bytes=len(BODY))
    assert tried.world.servers == []
    assert tried.bytes == BODY
    assert tried.sha256 == hashlib.sha256(BODY).hexdigest()


def test_a_file_shorter_than_what_was_safe_begins_anew(tried: Try) -> None:
    tried.path.write_bytes(BODY[:100])
    server = tried.world.serve(file_of(BODY, ETag=TAG))
    resumed(tried)
    tried.check(BODY)
    assert "range" not in server.asked[0].headers


@pytest.mark.parametrize(
    "headers",
    [
        {"ETag": 'W/"v1"', "Last_Modified": "Tue, 01 Sep 2026 10:00:00 GMT"},
        {"ETag": "v1"},
        {"ETag": TAG, "Accept_Ranges": "none"},
        {"ETag": f'"{"x" * 600}"'},
        {"Last_Modified": "Tue, 01 Sep 2026 10:00:00 GMT", "Date": "Tue, 01 Sep 2026 10:00:30 GMT"},
        {"Last_Modified": "Tue, 01 Sep 2026 10:00:00 GMT", "Date": None},
        {"Last_Modified": "yesterday"},
        {},
    ],
    ids=str,
)
def test_what_names_no_version_surely_is_not_relied_on(
    tried: Try, headers: dict[str, object]
) -> None:
    tried.world.serve(once(whole(BODY, **headers)))
    tried.fetch()
    tried.check(BODY)
    assert tried.told[0] == (0, len(BODY), None)


def test_a_fetch_broken_again_and_again_comes_together(tried: Try) -> None:
    good = file_of(BODY, ETag=TAG)

    def answer(asked: Asked) -> Iterator[bytes]:
        for block in good(asked):
            yield block[: 100_000 + len(head())]
            if len(block) > 100_000:
                time.sleep(0.1)
                raise Reset

    tried.world.serve(answer)
    kept, kept_bytes = None, 0
    for _ in range(6):
        with suppress(FetchFailed):
            tried.fetch(kept=kept, kept_bytes=kept_bytes)
            break
        kept, kept_bytes = version(), len(tried.bytes)
    tried.check(BODY)
    assert kept is not None
