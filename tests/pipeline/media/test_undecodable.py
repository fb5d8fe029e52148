"""Pictures that cannot be decoded for hours: the sound beside them is fed meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from pipeline.media.mixdown import Mixdown
from pipeline.media.remarks import RemarkBook
from pipeline.media.seconds import AudioSecond
from pipeline.media.source import open_source
from pipeline.media.units import UnitMerger
from pipeline.media.video import NoPicture, Picture, PictureSecond, first_of_each_second
from pipeline.settings import MediaLimits
from tests.clips import AAC, H264_BFRAMES, Clips, clips, greys, tones
from tests.pipeline.media.watched import check_grey, check_tone, watch

__all__ = ["clips"]


def undecodable(path: Path, seconds: range, out: Path) -> Path:
    """A copy with nothing sensible left of the pictures of these seconds."""
    data, chance = bytearray(path.read_bytes()), random.Random(7)
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.pts is None or packet.pos is None or not packet.time_base:
                continue
            if int(packet.pts * packet.time_base) in seconds:
                data[packet.pos : packet.pos + packet.size] = chance.randbytes(packet.size)
    out.write_bytes(data)
    return out


def clip(clips: Clips, seconds: range) -> Path:
    whole = clips.make("whole.mp4", *greys(20), *tones(20), *H264_BFRAMES, "-g", "20", *AAC)
    return undecodable(whole, seconds, clips.folder / f"from-{seconds.start}.mp4")


def test_all_the_sound_is_fed_and_the_pictures_after_it(clips: Clips) -> None:
    watched = watch(clip(clips, range(4, 16)))
    for second in range(19):
        check_tone(watched.unit(second), second)
    assert set(range(4)) | {16, 17, 18} <= set(watched.own_frames) <= {*range(4), *range(16, 20)}
    check_grey(watched.own_frames[18], 18)
    assert not watched.held_frames
    (remark,) = watched.remarks("video_decode_errors")
    assert remark.start_ms is not None
    assert remark.end_ms is not None
    assert remark.start_ms // 1000 == 4
    assert 15_000 <= remark.end_ms <= 16_500


def test_it_is_told_again_and_again_up_to_when_there_is_no_picture(clips: Clips) -> None:
    source = open_source(
        str(clip(clips, range(4, 20))), start_s=0, limits=MediaLimits(), pulse=lambda: None
    )
    told = [found.second for found in source.pictures if found.is_without]
    assert told == sorted(set(told))
    assert len(told) >= 12
    list(source.audio)


def picture(time: str) -> Picture:
    frame: Any = SimpleNamespace()
    return Picture(
        time=Fraction(time), frame=frame, aspect=Fraction(1), is_after_damage=time == "9"
    )


def without(before: str) -> NoPicture:
    return NoPicture(before=Fraction(before))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([picture("0"), without("1")], [("0", True)]),
        ([picture("0"), without("5.5"), picture("9")], [("0", True), ("5.5", False), ("9", True)]),
        # One that is presented before what was told comes too late.
        ([picture("0"), without("5.5"), picture("4")], [("0", True), ("5.5", False)]),
        ([picture("0"), without("5"), picture("5")], [("0", True), ("5", False), ("5", True)]),
    ],
)
def test_no_second_comes_after_it_was_told_to_be_without(
    given: list[Picture | NoPicture], expected: list[tuple[str, bool]]
) -> None:
    *found, end = first_of_each_second(given, is_end_damaged=lambda: False)
    assert [(item.time, item.own is not None) for item in found] == [
        (Fraction(time), is_own) for time, is_own in expected
    ]
    assert (end.time, end.own, end.is_without) == (None, None, False)


def test_sound_does_not_wait_for_pictures_of_later_seconds() -> None:
    asked: list[int] = []

    def words() -> Iterator[PictureSecond]:
        for second in (4, 8, 12):
            asked.append(second)
            yield PictureSecond(time=Fraction(second), own=None, before=None, is_hole_trusted=False)
        yield PictureSecond(time=None, own=None, before=None, is_hole_trusted=False)

    def sound() -> Iterator[AudioSecond]:
        for second in range(10):
            end = (second + 1) * 16_000
            yield AudioSecond(
                second=second,
                samples=np.zeros(16_000, np.float32),
                real_samples=16_000,
                real_start=end - 16_000,
                real_end=end,
            )

    source: Any = SimpleNamespace(
        remarks=RemarkBook(), pass_remarks=(), mixdown=Mixdown(), audio=sound(), pictures=words()
    )
    events = UnitMerger(source, start_s=0, longest_edge_px=448).events()
    seen = {next(events).second: len(asked) for _ in range(10)}  # type: ignore[union-attr]
    assert [seen[second] for second in range(10)] == [1, 1, 1, 2, 2, 2, 2, 3, 3, 3]
    assert next(events).units == 10  # type: ignore[union-attr]


LAST = {
    "vp9.webm": ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8"),
    "hevc.mp4": ("-c:v", "libx265", "-x265-params", "log-level=none:bframes=0"),
    "mpeg4.avi": ("-c:v", "mpeg4"),
    "h264.mp4": (*H264_BFRAMES, "-bf", "0"),
}


@pytest.mark.parametrize("name", LAST)
def test_pictures_before_a_last_one_that_cannot_be_decoded_come_out(
    clips: Clips, name: str
) -> None:
    """What a decoder's threads hold back when the file ends is not lost with it."""
    whole = clips.make(f"last-{name}", *greys(6, fps="1"), *LAST[name])
    with av.open(str(whole)) as container:
        (last,) = [p for p in container.demux(video=0) if p.size][-1:]
    data = bytearray(whole.read_bytes())
    assert last.pos is not None
    data[last.pos + 4 : last.pos + last.size] = b"\xff" * (last.size - 4)
    watched = watch(clips.write(f"broken-{name}", bytes(data)))
    assert set(range(5)) <= set(watched.own_frames)
    for second in range(5):
        check_grey(watched.own_frames[second], second)
