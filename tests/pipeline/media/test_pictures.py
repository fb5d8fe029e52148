"""Pictures are upright, in their display shape and colours, never enlarged and never too large."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from pipeline.records import FRAME_BYTES_MAX, Frame
from tests.clips import H264, Clips, ffmpeg_picture, rgb
from tests.pipeline.media.watched import pixels, watch

LOSSLESS = ("-c:v", "ffv1", "-pix_fmt", "yuv444p")


def first(path: Path, *, longest_edge_px: int = 448) -> Frame:
    return watch(path, longest_edge_px=longest_edge_px).own_frames[0]


def close(frame: Frame, expected: np.ndarray, *, mean: float = 4.0) -> None:
    shown = pixels(frame)
    assert shown.shape == expected.shape
    assert np.abs(shown - expected.astype(np.float32)).mean() < mean


def source(size: str = "64x48", seconds: float = 1) -> tuple[str, ...]:
    """Four corners of different colours: every turn and mirror looks different."""
    width, height = map(int, size.split("x"))
    half = f"{width // 2}:{height // 2}"
    boxes = (
        f"drawbox=0:0:{half}:red:fill,drawbox={width // 2}:0:{half}:green:fill,"
        f"drawbox=0:{height // 2}:{half}:blue:fill"
    )
    return ("-f", "lavfi", "-i", f"color=yellow:s={size}:r=5:d={seconds},{boxes}")


# --- turned and mirrored -----------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0, 90, 180, 270, -90])
def test_a_turned_picture_is_upright(clips: Clips, angle: int) -> None:
    flat = clips.make("flat.mp4", *source(), *H264)
    path = clips.make(
        f"turned{angle}.mp4", "-display_rotation", str(angle), "-i", str(flat), "-c", "copy"
    )
    frame = first(path)
    close(frame, ffmpeg_picture(path))
    assert (frame.width_px, frame.height_px) == ((64, 48) if angle % 180 == 0 else (48, 64))


@pytest.mark.parametrize("flips", [("-display_hflip",), ("-display_vflip",)])
@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_a_mirrored_picture_is_as_ffmpeg_shows_it(
    clips: Clips, angle: int, flips: tuple[str, ...]
) -> None:
    flat = clips.make("flat.mp4", *source(), *H264)
    path = clips.make(
        f"mirror{angle}{flips[0]}.mp4",
        *("-display_rotation", str(angle), *flips, "-i", str(flat), "-c", "copy"),
    )
    close(first(path), ffmpeg_picture(path))


def test_a_slanted_picture_stays_as_it_is_stored(clips: Clips) -> None:
    flat = clips.make("flat.mp4", *source(), *H264)
    path = clips.make("slant.mp4", "-display_rotation", "45", "-i", str(flat), "-c", "copy")
    close(first(path), ffmpeg_picture(flat))


@pytest.mark.parametrize("angle", [90, 180])
def test_a_turned_picture_in_matroska_is_upright(clips: Clips, angle: int) -> None:
    flat = clips.make("flat.mp4", *source(), *H264)
    for flips in ((), ("-display_hflip",)):
        path = clips.make(
            f"turned{angle}{''.join(flips)}.mkv",
            *("-display_rotation", str(angle), *flips, "-i", str(flat), "-c", "copy"),
        )
        close(first(path), ffmpeg_picture(path))


@pytest.mark.parametrize("angle", [0, 90, 270])
def test_a_picture_beside_whose_turn_lies_what_nobody_knows_is_upright(
    clips: Clips, angle: int
) -> None:
    """TIFF pictures bring EXIF data, as the Motion JPEG of cameras does; PyAV 17 refuses it."""
    flat = clips.make("flat.mov", *source(), "-c:v", "tiff")
    path = clips.make(
        f"exif{angle}.mov", "-display_rotation", str(angle), "-i", str(flat), "-c", "copy"
    )
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    if int(av.__version__.split(".")[0]) < 18:
        with pytest.raises(ValueError, match="not a valid"):
            len(frame.side_data)
    close(first(path), ffmpeg_picture(path))


def test_a_turn_that_begins_in_mid_stream_is_followed(clips: Clips) -> None:
    flat = clips.make("flat2.ts", *source(seconds=2), *H264, "-g", "1")
    turned = clips.make(
        "sei.ts",
        *("-i", str(flat), "-c", "copy"),
        *("-bsf:v", "h264_metadata=display_orientation=insert:rotate=90"),
    )
    joined = clips.write("turns.ts", flat.read_bytes() + turned.read_bytes())
    found = {(f.width_px, f.height_px) for f in watch(joined).own_frames.values()}
    assert found == {(64, 48), (48, 64)}


# --- shape and size ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "aspect", "shown"),
    [
        ("64x48", "1/1", (64, 48)),
        ("72x58", "64/45", (72, 41)),  # 58 × 45/64 = 40.8
        ("64x48", "1/2", (32, 48)),
        ("64x48", "0/1", (64, 48)),
        ("64x48", "100/1", (64, 48)),  # a fault: ignored
        ("64x48", "1/5", (64, 48)),
    ],
)
def test_pixels_that_are_not_square_are_shown_in_their_shape(
    clips: Clips, size: str, aspect: str, shown: tuple[int, int]
) -> None:
    name = f"sar-{aspect.replace('/', '-')}-{size}.mkv"
    path = clips.make(name, *source(size), "-vf", f"setsar={aspect}", *LOSSLESS)
    frame = first(path)
    assert (frame.width_px, frame.height_px) == shown
    close(frame, ffmpeg_picture(path, filters=f"scale={shown[0]}:{shown[1]}:flags=area"))


@pytest.mark.parametrize(
    ("size", "edge", "shown"),
    [
        ("161x121", 448, (161, 121)),  # never enlarged
        ("2x2", 448, (2, 2)),
        ("1x1", 448, (1, 1)),
        ("3x5", 448, (3, 5)),
        ("640x360", 448, (448, 252)),
        ("360x640", 448, (252, 448)),
        ("1280x16", 448, (448, 6)),  # 5.6
        ("3000x2", 448, (448, 1)),  # 0.3, but at least one pixel
        ("641x359", 112, (112, 63)),  # 62.7
        ("2000x2000", 1920, (1440, 1440)),  # 1920 × 1080 pixels in all: √2,073,600 = 1440
        ("1920x1080", 1920, (1920, 1080)),
    ],
)
def test_the_longest_edge_and_the_area_are_bounded(
    clips: Clips, size: str, edge: int, shown: tuple[int, int]
) -> None:
    drawn = ("-f", "lavfi", "-i", f"testsrc=s={size}:r=2:d=0.5")
    path = clips.make(f"s{size}.mkv", *drawn, "-c:v", "ffv1", "-pix_fmt", "gbrp")
    frame = first(path, longest_edge_px=edge)
    assert (frame.width_px, frame.height_px) == shown
    assert frame.width_px * frame.height_px <= 1920 * 1080
    image = Image.open(io.BytesIO(frame.jpeg))
    assert image.format == "JPEG"
    assert image.size == shown
    if min(shown) > 8:
        close(
            frame, ffmpeg_picture(path, filters=f"scale={shown[0]}:{shown[1]}:flags=area"), mean=6
        )


@pytest.mark.parametrize("size", ["1920x1080", "1080x1920", "1440x1440"])
def test_noise_at_the_largest_size_still_fits(clips: Clips, size: str) -> None:
    noise = f"nullsrc=s={size}:r=1:d=1,geq=random(1)*255:128+127*random(2):128+127*random(3)"
    path = clips.make(f"noise{size}.mkv", "-f", "lavfi", "-i", noise, "-c:v", "ffv1")
    frame = first(path, longest_edge_px=1920)
    width, height = map(int, size.split("x"))
    assert (frame.width_px, frame.height_px) in ((width, height), (width // 2, height // 2))
    assert len(frame.jpeg) <= FRAME_BYTES_MAX
    assert pixels(frame).std() > 20


def test_a_size_that_changes_in_mid_stream_is_followed(clips: Clips) -> None:
    parts = b""
    for size in ("64x48", "176x144"):
        part = clips.make(f"part{size}.ts", *source(size, 2), *H264, "-g", "5")
        parts += part.read_bytes()
    watched = watch(clips.write("sizes.ts", parts))
    found = [(f.width_px, f.height_px) for f in watched.own_frames.values()]
    assert found[0] == (64, 48)
    assert found[-1] == (176, 144)
    for frame in watched.own_frames.values():
        corner = pixels(frame)[4:8, 4:8].mean(axis=(0, 1))
        assert corner[0] > 150 > 60 > corner[1]  # red


# --- colours -----------------------------------------------------------------------------------


def test_what_lies_under_transparent_pixels_is_white(clips: Clips) -> None:
    boxes = "format=rgba,geq=r=255:g=0:b=0:a='if(lt(X,32),0,255)'"
    path = clips.make("alpha.mov", "-f", "lavfi", "-i", f"color=red:s=64x48:d=1:r=2,{boxes}", *PNG)
    shown = pixels(first(path))
    assert np.abs(shown[8:40, 4:24] - [255, 255, 255]).max() < 12
    assert np.abs(shown[8:40, 40:60] - [255, 0, 0]).max() < 12


PNG = ("-c:v", "png")


@pytest.mark.parametrize(
    ("size", "matrix"), [("1280x720", "bt709"), ("640x360", "bt601")], ids=["hd", "sd"]
)
def test_untagged_colours_follow_the_size(clips: Clips, size: str, matrix: str) -> None:
    """Yellow of (190, 190, 0); the other matrix would make its green 202 or 177."""
    path = clips.make(
        f"untagged{size}.mkv",
        *("-f", "lavfi", "-i", f"color=0xbebe00:s={size}:r=2:d=1"),
        *(
            "-vf",
            f"scale=out_color_matrix={matrix}:out_range=tv,format=yuv420p,setparams=colorspace=unknown",
        ),
        *("-c:v", "ffv1"),
    )
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        assert frame.colorspace == 2
    shown = pixels(first(path)).mean(axis=(0, 1))
    assert np.abs(shown - [190, 190, 0]).max() < 5


@pytest.mark.parametrize(
    ("pix_fmt", "level"),
    [("yuv420p", rgb(120)), ("yuvj420p", 120.0), ("gray", 120.0), ("yuv420p10le", rgb(120))],
)
def test_grey_of_any_format_is_that_grey(clips: Clips, pix_fmt: str, level: float) -> None:
    luma = 480 if pix_fmt.endswith("10le") else 120
    chroma = "" if pix_fmt == "gray" else f":cb={512 if luma == 480 else 128}"
    black = "color=black:s=64x48:r=2:d=1"
    chroma += chroma.replace("cb", "cr")
    path = clips.make(
        f"{pix_fmt}.mkv",
        *("-f", "lavfi", "-i", f"{black},format={pix_fmt},geq=lum={luma}{chroma}"),
        *("-c:v", "mjpeg" if pix_fmt == "yuvj420p" else "ffv1", "-strict", "-1", "-q:v", "1"),
    )
    assert float(pixels(first(path)).mean()) == pytest.approx(level, abs=3)
