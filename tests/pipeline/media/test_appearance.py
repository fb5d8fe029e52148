"""The shape of a pixel is what the container says, or else what the pictures say as they come."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import pytest

from pipeline.media.appearance import Appearance
from tests.clips import H264, Clips
from tests.pipeline.media.watched import watch

PATTERN = ("-f", "lavfi", "-i", "testsrc=s=64x48:r=5:d=2")


def sizes(path: Path) -> list[tuple[int, int]]:
    return [(frame.width_px, frame.height_px) for frame in watch(path).own_frames.values()]


@pytest.mark.parametrize("container", ["mp4", "mkv", "mov"])
def test_the_container_is_believed_before_the_pictures(clips: Clips, container: str) -> None:
    square = clips.make("square.mp4", *PATTERN, "-vf", "setsar=1/1", *H264)
    path = clips.make(
        f"wide.{container}", "-i", str(square), "-c", "copy", "-aspect:v", "8/3"
    )  # 2:1 pixels
    assert sizes(square) == [(64, 48)] * 2
    assert sizes(path) == [(64, 24)] * 2


def test_the_pictures_are_believed_where_the_container_says_nothing(clips: Clips) -> None:
    path = clips.make("said.ts", *PATTERN, "-vf", "setsar=2/1", *H264, "-g", "5")
    assert sizes(path) == [(64, 24)] * 2


@pytest.mark.parametrize(
    ("codec", "last"),
    [
        (("-c:v", "mpeg2video", "-bf", "2", "-q:v", "2"), 40),  # stores 16:9: 72 · 9/16 = 40.5
        (H264, 41),  # stores 64:45: 58 · 45/64 = 40.8
    ],
)
def test_a_shape_that_changes_in_mid_stream_is_followed(
    clips: Clips, codec: tuple[str, ...], last: int
) -> None:
    """As at the border between a 4:3 programme and a 16:9 one, in the same 720 × 576."""
    source = ("-f", "lavfi", "-i", "testsrc=s=72x58:r=25:d=2")
    parts = [
        clips.make(f"part{codec[1]}{n}.ts", *source, "-vf", f"setsar={sar}", *codec, "-g", "12")
        for n, sar in enumerate(("16/15", "64/45"))
    ]
    path = clips.write(f"shapes{codec[1]}.ts", b"".join(part.read_bytes() for part in parts))
    found = sizes(path)
    assert found[0] == (72, 54)  # 58 · 15/16 = 54.4
    assert found[-1] == (72, last)


def test_colours_of_the_pictures_go_before_those_of_the_container(clips: Clips) -> None:
    tags = "setparams=color_primaries=bt709:color_trc=bt709:colorspace=bt709:range=tv"
    flat = clips.make("tagged.mp4", *PATTERN, "-vf", f"format=yuv420p,{tags}", *H264)
    with av.open(str(flat)) as container:
        appearance = Appearance(container.streams.video[0])
        frame = next(container.decode(video=0))
    frame.color_trc = 8
    appearance.complete(frame)
    assert (frame.colorspace, frame.color_trc, frame.color_primaries) == (1, 8, 1)
    frame.colorspace = frame.color_trc = frame.color_primaries = 2
    frame.color_range = 0
    appearance.complete(frame)
    assert (frame.colorspace, frame.color_trc, frame.color_primaries) == (1, 1, 1)
    assert frame.color_range == 1
    assert appearance.aspect == Fraction(1)
