"""What the decoder's process says is taken only where it makes sense: it reads hostile bytes."""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records import Frame, Gap, MediaEnd, MediaStream, Probe, Remark, Unit
from pipeline.wire import Failure, Message, Order, Pulse, Refusal, WireError, decode, encode

JPEG = b"\xff\xd8 not a picture, but bytes \xff\xd9"


def a_frame(**changes: Any) -> Frame:
    given = {"source_ms": 2100, "width_px": 64, "height_px": 48, "jpeg": JPEG}
    given |= {"sha256": hashlib.sha256(JPEG).hexdigest()}
    return Frame(**given | changes)


def a_unit(**changes: Any) -> Unit:
    given: dict[str, Any] = {
        "second": 2,
        "start_ms": 2000,
        "end_ms": 3000,
        "pcm": struct.pack("<16000f", *[0.25] * 16_000),
        "real_samples": 15_000,
        "filled_samples": 900,
        "synthetic_samples": 100,
        "frame": a_frame(),
        "is_frame_held": False,
        "decode_ms": 1.5,
    }
    return Unit(**given | changes)


MESSAGES: list[Message] = [
    Probe(
        format="mov,mp4",
        size_bytes=12,
        origin_ms=-40,
        declared_duration_ms=None,
        packet_end_ms=10,
        streams=(
            MediaStream(
                index=0,
                kind="audio",
                codec=None,
                is_chosen=True,
                reason="the only “one”\n\x00\ud800",
                details={"title": "☃", "channels": 2, "language": None},
            ),
        ),
    ),
    a_unit(),
    a_unit(frame=None),
    Gap(start_ms=1, end_ms=30_002),
    MediaEnd(
        source_end_ms=1,
        units=1,
        real_samples=1,
        filled_samples=2,
        synthetic_samples=15_997,
        own_frames=0,
        held_frames=0,
        clipped_samples=0,
        replaced_samples=0,
        remarks=(Remark(code="a", message="b"), Remark(code="a", message="b", start_ms=5)),
    ),
    Pulse(),
    Refusal(code="a", message="b"),
    Failure(traceback="c"),
]


def reader(data: bytes) -> Callable[[int], bytes]:
    return io.BytesIO(data).read


def raw(header: object, pcm: bytes = b"", jpeg: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<III", len(text), len(pcm), len(jpeg)) + text + pcm + jpeg


def refused(data: bytes) -> str:
    with pytest.raises(WireError) as caught:
        decode(reader(data))
    return str(caught.value)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert decode(reader(encode(message))) == message


def test_messages_follow_one_another_and_the_end_is_clean() -> None:
    read = reader(b"".join(map(encode, MESSAGES)))
    assert [decode(read) for _ in MESSAGES] == MESSAGES
    assert decode(read) is None


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_that_breaks_off_is_refused(message: Message) -> None:
    data = encode(message)
    for length in {1, 11, 12, 13, len(data) // 2, len(data) - 1} - {0, len(data)}:
        assert "breaks off" in refused(data[:length]), length


def test_the_oversized_is_refused_before_it_is_read() -> None:
    for sizes in (
        (4 * 1024**2 + 1, 0, 0),
        (10, 63_999, 0),
        (10, 64_001, 0),
        (10, 0, 512_001),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
    ):
        asked: list[int] = []

        def read(length: int, sizes: tuple[int, ...] = sizes, asked: list[int] = asked) -> bytes:
            asked.append(length)
            return struct.pack("<III", *sizes)

        with pytest.raises(WireError):
            decode(read)
        assert asked == [12]


def unit_header(**changes: Any) -> list[Any]:
    data = encode(a_unit())
    (length, _, _) = struct.unpack("<III", data[:12])
    name, body = json.loads(data[12 : 12 + length])
    return [name, body | changes]


FRAME = unit_header()[1]["frame"]
PCM = a_unit().pcm

NONSENSE = {
    "not JSON": raw(b"{"),
    "not UTF-8": raw(b"\xff\xfe"),
    "no pair": raw({"a": 1}),
    "three": raw(["Pulse", {}, {}]),
    "unknown kind": raw(["Exploit", {}]),
    "a kind that is no name": raw([["Pulse"], {}]),
    "a kind that is an object": raw([{"Pulse": 1}, {}]),
    "a body that is a list": raw(["Gap", []]),
    "a unit's body that is nothing": raw(["Unit", None], PCM),
    "a unit's body that is text": raw(["Unit", "x"], PCM),
    "a unit's body that is a list": raw(["Unit", []], PCM),
    "a field too many": raw(["Gap", {"start_ms": 1, "end_ms": 2, "extra": 3}]),
    "a field missing": raw(["Gap", {"start_ms": 1}]),
    "text for a number": raw(["Gap", {"start_ms": "1", "end_ms": 2}]),
    "true for a number": raw(["Gap", {"start_ms": True, "end_ms": 2}]),
    "deep": raw(b"[" * 100_000),
    "deeper within": raw(b'["Gap",' + b'{"a":' * 100_000),
    "samples without a unit": raw(["Pulse", {}], PCM),
    "a picture without a unit": raw(["Pulse", {}], b"", JPEG),
    "a unit without samples": raw(unit_header(), b"", JPEG),
    "a picture without a frame": raw(unit_header(frame=None), PCM, JPEG),
    "a frame without a picture": raw(unit_header(), PCM),
    "a second that is text": raw(unit_header(second="2"), PCM, JPEG),
    "a time that is a fraction": raw(unit_header(start_ms=2000.5), PCM, JPEG),
    "decode time that is no number": raw(
        json.dumps(unit_header(decode_ms=float("nan"))).encode(), PCM, JPEG
    ),
    "infinite decode time": raw(
        json.dumps(unit_header(decode_ms=float("inf"))).encode(), PCM, JPEG
    ),
    "decode time that is read as infinite": raw(
        json.dumps(["Unit", unit_header()[1] | {"decode_ms": 0.125}])
        .replace("0.125", "1e999")
        .encode(),
        PCM,
        JPEG,
    ),
    "a unit that ends before it begins": raw(unit_header(end_ms=1999), PCM, JPEG),
    "a unit longer than a second": raw(unit_header(end_ms=3001), PCM, JPEG),
    "a second beyond what is kept": raw(
        unit_header(second=2**31, start_ms=2**31 * 1000, end_ms=2**31 * 1000 + 1000), PCM, JPEG
    ),
    "a picture from far away": raw(unit_header(frame=FRAME | {"source_ms": 2**31}), PCM, JPEG),
    "a picture without height": raw(unit_header(frame=FRAME | {"height_px": 0}), PCM, JPEG),
    "a count beyond any file": raw(["Gap", {"start_ms": 1, "end_ms": 2**60}]),
    "decode time beyond a float": raw(unit_header(decode_ms=10**400), PCM, JPEG),
    "samples that do not add up": raw(unit_header(real_samples=15_001), PCM, JPEG),
    "less than no samples": raw(
        unit_header(real_samples=-1, filled_samples=16_001, synthetic_samples=0), PCM, JPEG
    ),
    "a unit that is somewhere else": raw(unit_header(start_ms=3000), PCM, JPEG),
    "a second before the first": raw(unit_header(second=-2, start_ms=-2000), PCM, JPEG),
    "a frame that is a list": raw(unit_header(frame=[]), PCM, JPEG),
    "a frame named like another": raw(unit_header(frame=FRAME | {"sha256": "0" * 64}), PCM, JPEG),
    "a frame named like a path": raw(
        unit_header(frame=FRAME | {"sha256": "../../etc/passwd"}), PCM, JPEG
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str) -> None:
    refused(NONSENSE[name])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_spoiled_message_is_refused_or_another_message_and_nothing_else(
    data: st.DataObject,
) -> None:
    whole = bytearray(encode(data.draw(st.sampled_from(MESSAGES))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(whole), 900) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    try:
        decode(reader(bytes(whole)))
    except WireError:
        return


# --- what may follow what ----------------------------------------------------------------------


def second(number: int) -> Unit:
    return a_unit(second=number, start_ms=number * 1000, end_ms=number * 1000 + 1000)


def message(kind: type[Any]) -> Any:
    return next(each for each in MESSAGES if isinstance(each, kind))


PROBE, END, GAP = message(Probe), message(MediaEnd), Gap(start_ms=3000, end_ms=60_000)

IN_ORDER: list[list[Message]] = [
    [Pulse(), PROBE, Pulse(), second(2), second(3), GAP, second(60), END],
    [PROBE, second(7), END],
    [Refusal(code="a", message="b")],
    [PROBE, second(2), Failure(traceback="c")],
]

OUT_OF_ORDER: list[list[Message]] = [
    [second(2)],
    [GAP],
    [END],
    [PROBE, PROBE],
    [PROBE, second(1)],
    [PROBE, second(2), second(2)],
    [PROBE, second(3), second(2)],
    [PROBE, Gap(start_ms=5, end_ms=5)],
    [PROBE, Gap(start_ms=-1, end_ms=5)],
    [PROBE, Gap(start_ms=5, end_ms=2**31)],
    [PROBE, END, END],
    [PROBE, END, second(2)],
    [PROBE, END, Pulse()],
]


@pytest.mark.parametrize("messages", IN_ORDER)
def test_what_the_process_sends_may_come(messages: list[Message]) -> None:
    order = Order(start_s=2)
    for each in messages:
        order.take(each)


@pytest.mark.parametrize("messages", OUT_OF_ORDER)
def test_what_it_never_sends_may_not(messages: list[Message]) -> None:
    order = Order(start_s=2)
    for each in messages[:-1]:
        order.take(each)
    with pytest.raises(WireError, match="may not come now"):
        order.take(messages[-1])
