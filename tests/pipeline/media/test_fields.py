"""A picture of two fields is shown as one moment where they differ, and left alone elsewhere."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from pipeline.media.fields import without_comb
from tests.clips import Clips, ffmpeg_picture
from tests.pipeline.media.watched import pixels, watch

SIZE = "352x288"

MOVING = (
    f"testsrc=s={SIZE}:r=50:d=1.2,drawbox=60:40:50:200:white:fill,drawbox=200:20:30:240:black:fill,"
    "scroll=h=0.03,hue=s=0,format=yuv420p"
)
"""Every field of 50 a second is of another moment: all moves by ten columns. Without colour, which
FFmpeg turns into other formats with no regard to fields."""

DETAIL = f"testsrc2=s={SIZE}:r=25:d=1.2,scroll=h=0.03,format=yuv420p"
"""Moving, with lettering and a chequered pattern, each picture of one moment."""

TOP, BOTTOM = "interleave_top", "interleave_bottom"

FAST = ("-preset", "ultrafast")
BOTH_FIELDS = ("-flags", "+ilme+ildct")

KINDS = {
    "mpeg2.ts": (TOP, ("-c:v", "mpeg2video", "-q:v", "2", "-bf", "2", *BOTH_FIELDS)),
    "bottom.mpg": (BOTTOM, ("-c:v", "mpeg2video", "-q:v", "2", *BOTH_FIELDS)),
    "mbaff.mp4": (
        TOP,
        ("-c:v", "libx264", *FAST, "-qp", "4", *BOTH_FIELDS, "-x264-params", "tff=1"),
    ),
    "bff.mkv": (
        BOTTOM,
        ("-c:v", "libx264", *FAST, "-qp", "4", *BOTH_FIELDS, "-x264-params", "bff=1"),
    ),
    "prores.mov": (TOP, ("-c:v", "prores_ks", *BOTH_FIELDS)),
    "packed.mov": (TOP, ("-c:v", "rawvideo", "-pix_fmt", "uyvy422", "-field_order", "tt")),
}


def interlaced(clips: Clips, kind: str, *, source: str = MOVING) -> Path:
    weave, codec = KINDS[kind]
    order = "tff" if weave == TOP else "bff"
    return clips.make(
        f"i-{kind}", "-f", "lavfi", "-i", f"{source},tinterlace={weave},setfield={order}", *codec
    )


def moment(clips: Clips, second: int) -> np.ndarray:
    """The whole picture at this second, of which the clip holds every other line."""
    path = clips.make("moments.mkv", "-f", "lavfi", "-i", MOVING, "-c:v", "ffv1")
    return ffmpeg_picture(path, filters=f"select='eq(n,{50 * second})'").astype(float)


def off(found: np.ndarray, meant: np.ndarray) -> float:
    return float(np.abs(found - meant).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_a_combed_picture_becomes_that_of_its_first_field(clips: Clips, kind: str) -> None:
    path = interlaced(clips, kind)
    watched = watch(path)
    woven = ffmpeg_picture(path).astype(float)
    assert off(woven, moment(clips, 0)) > 6
    for second in (0, 1):
        found = watched.own_frames[second]
        assert off(pixels(found), moment(clips, second)) < 3
        assert found.source_ms == second * 1000
    (remark,) = watched.remarks("deinterlaced")
    assert remark.count == len(watched.own_frames)


@pytest.mark.parametrize("kind", ["mpeg2.ts", "mbaff.mp4"])
def test_a_progressive_picture_sent_as_two_fields_keeps_every_line(clips: Clips, kind: str) -> None:
    _, codec = KINDS[kind]
    path = clips.make(f"psf-{kind}", "-f", "lavfi", "-i", f"{DETAIL},setfield=tff", *codec)
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    assert frame.interlaced_frame
    watched = watch(path)
    assert not watched.remarks("deinterlaced")
    assert off(pixels(watched.own_frames[0]), ffmpeg_picture(path).astype(float)) < 2


def test_a_progressive_picture_sent_as_two_fields_is_scaled_as_one(clips: Clips) -> None:
    """Scaled field by field, lines of a slanted edge would alternate."""
    path = clips.make(
        "psf-half.mp4",
        *("-f", "lavfi", "-i", f"{DETAIL},setfield=tff", *KINDS["mbaff.mp4"][1]),
    )
    meant = ffmpeg_picture(path, filters="setfield=prog,scale=176:144:flags=area")
    assert off(pixels(watch(path, longest_edge_px=176).own_frames[0]), meant.astype(float)) < 2.5


def test_what_stands_still_keeps_both_its_fields(clips: Clips) -> None:
    still = f"testsrc2=s={SIZE}:r=50:d=0.02,loop=60:1,format=yuv420p"
    watched = watch(interlaced(clips, "mbaff.mp4", source=still))
    assert not watched.remarks("deinterlaced")


def test_a_moving_part_is_enough_and_the_rest_keeps_its_lines(clips: Clips) -> None:
    """A head before a set: one part in eight moves."""
    part = "[0:v][1:v]overlay=20:20,format=yuv420p"
    still = f"testsrc2=s={SIZE}:r=50:d=0.02,loop=60:1"
    moving = "testsrc=s=96x128:r=50:d=1.2,drawbox=20:10:30:100:white:fill,scroll=h=0.06"
    path = clips.make(
        "part.mp4",
        *("-f", "lavfi", "-i", still, "-f", "lavfi", "-i", moving, "-t", "1.2"),
        *("-filter_complex", f"{part},tinterlace={TOP},setfield=tff", *KINDS["mbaff.mp4"][1]),
    )
    watched = watch(path)
    assert watched.remarks("deinterlaced")
    found, woven = pixels(watched.own_frames[0]), ffmpeg_picture(path).astype(float)
    assert off(found[160:], woven[160:]) < 2
    assert off(found[20:148, 20:116], woven[20:148, 20:116]) > 6


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (40, 31), (1, 33), (17, 33), (720, 33)])
def test_pictures_of_any_size_pass(clips: Clips, size: tuple[int, int]) -> None:
    """One pixel is less than a filter for fields takes."""
    width, height = size
    source = f"color=gray:s={width}x{height}:r=25:d=0.04,format=yuv422p,setfield=tff"
    path = clips.make(
        f"small{width}x{height}.mov",
        *("-f", "lavfi", "-i", source, "-c:v", "rawvideo", "-pix_fmt", "uyvy422"),
        *("-field_order", "tt"),
    )
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    assert frame.interlaced_frame
    made, is_deinterlaced = without_comb(frame)
    assert (made.width, made.height, made.interlaced_frame) == (width, height, False)
    assert not is_deinterlaced
