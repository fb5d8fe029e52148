"""Whatever a file calls its colours, they come out as an SDR screen shows them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from pipeline.media.colour import MATRICES, shown
from pipeline.media.picture import upright
from tests.clips import Clips, ffmpeg_picture
from tests.pipeline.media.watched import pixels, watch

CHART = "smptehdbars=s=320x180:r=2:d=1,format=gbrp"
"""Greys and colours of SDR BT.709, as RGB."""

SDR = "setparams=color_primaries=bt709:color_trc=bt709:colorspace=gbr:range=pc"

X265 = ("-c:v", "libx265", "-x265-params", "log-level=none:lossless=1")

GREYS = ((40, 10), (150, 40), (40, 70))
COLOURS = ((40, 110), (40, 160), (40, 205), (40, 250))
"""Row and column inside bars: cyan, green, magenta, blue."""

DARK = 30
"""Below this a level is so little light that rounding moves it by many."""


def converted(clips: Clips, name: str, *, transfer: str, primaries: str, pixel: str) -> Path:
    """The chart at 203 nits for its white in another system, made by the zimg library."""
    tags = (
        f"setparams=color_primaries={primaries}:color_trc={transfer}:colorspace=bt2020nc:range=tv"
    )
    there = f"zscale=p={primaries},zscale=m=2020_ncl:t={transfer}:npl=203:r=limited"
    light = "zscale=t=linear:npl=203,format=gbrpf32le"
    return clips.make(
        name,
        *("-f", "lavfi", "-i", f"{CHART},{SDR},{light},{there},format={pixel},{tags}"),
        *X265,
    )


def chart(clips: Clips) -> np.ndarray:
    path = clips.make("chart.mkv", "-f", "lavfi", "-i", CHART, "-c:v", "ffv1")
    return ffmpeg_picture(path).astype(float)


def apart(found: np.ndarray, meant: np.ndarray, places: tuple[tuple[int, int], ...]) -> float:
    found, meant = np.maximum(found, DARK), np.maximum(meant, DARK)
    return max(float(np.abs(found[y, x] - meant[y, x]).max()) for y, x in places)


# --- high dynamic range --------------------------------------------------------------------------


def test_a_picture_in_pq_has_the_colours_of_the_same_picture_in_sdr(clips: Clips) -> None:
    path = converted(clips, "pq.mp4", transfer="smpte2084", primaries="bt2020", pixel="yuv420p10le")
    watched = watch(path)
    found, meant = pixels(watched.own_frames[0]), chart(clips)
    assert apart(found, meant, GREYS) < 4
    assert apart(found, meant, COLOURS) < 12  # the curve takes a little of the brightest
    (remark,) = watched.remarks("hdr_tone_mapped")
    assert (remark.count, remark.start_ms) == (1, None)


def test_a_picture_in_hlg_has_the_greys_of_the_same_picture_in_sdr(clips: Clips) -> None:
    """zimg brightens each colour by itself, so only greys compare; colours: test_tone."""
    path = converted(
        clips, "hlg.mkv", transfer="arib-std-b67", primaries="bt2020", pixel="yuv422p10le"
    )
    watched = watch(path)
    assert apart(pixels(watched.own_frames[0]), chart(clips), GREYS) < 5
    assert watched.remarks("hdr_tone_mapped")


def test_hdr_that_only_the_container_speaks_of_is_hdr(clips: Clips) -> None:
    """The decoder forgets it, as the pictures themselves say nothing of their colours."""
    grey = "color=gray:s=64x48:r=2:d=1,format=yuv420p10le,geq=lum=502:cb=512:cr=512"
    silent = clips.make("silent.mp4", "-f", "lavfi", "-i", grey, *X265)
    tags = ("-color_trc", "smpte2084", "-color_primaries", "bt2020", "-colorspace", "bt2020nc")
    tagged = clips.make("tagged.mp4", "-i", str(silent), "-c", "copy", *tags)
    with av.open(str(tagged)) as container:
        assert next(container.decode(video=0)).color_trc == 2
    assert not watch(silent).remarks("hdr_tone_mapped")
    watched = watch(tagged)
    assert watched.remarks("hdr_tone_mapped")
    # 502 of 64–940 is PQ 0.5: 92.2 nits of 203, dimmed to 91.5 by the curve: 0.717.
    assert float(pixels(watched.own_frames[0]).mean()) == pytest.approx(0.717 * 255, abs=3)


def test_what_lies_under_transparent_hdr_is_white() -> None:
    frame = av.VideoFrame(16, 16, "rgba64le")
    values = np.zeros((16, frame.planes[0].line_size // 8, 4), "<u2")
    values[:, 5:10, 3] = 32_768
    values[:, 10:, 3] = 65_535
    frame.planes[0].update(values.tobytes())
    frame.color_trc, frame.color_primaries = 16, 9
    made = shown(frame, width=16, height=16)
    assert made.is_tone_mapped
    assert made.pixels[8, 2].tolist() == [255, 255, 255]
    assert made.pixels[8, 7].tolist() == [127, 127, 127]
    assert made.pixels[8, 13].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("said", "brightest"),
    [
        ("", 1000),
        ("max-cll=4000,300:", 4000),
        (
            "master-display=G(8500,39850)B(6550,2300)R(35400,14600)WP(15635,16450)L(40000000,50):",
            4000,
        ),
        ("max-cll=300,100:", 1000),  # no brighter for it: white stays where it is
    ],
)
def test_what_the_file_says_of_its_brightest_light_is_shown(
    clips: Clips, said: str, brightest: int
) -> None:
    """PQ 0.7 is 621 nits, 0.82 is 1,872: the second is white unless the file reaches it."""
    halves = "geq=lum='if(lt(X,32),64+876*0.7,64+876*0.82)':cb=512:cr=512"
    tags = "setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv"
    path = clips.make(
        f"cll{len(said)}.mp4",
        *("-f", "lavfi", "-i", f"color=gray:s=64x48:r=2:d=1,format=yuv420p10le,{halves},{tags}"),
        *("-c:v", "libx265", "-x265-params", f"{said}log-level=none:lossless=1"),
    )
    found = pixels(watch(path).own_frames[0])
    dark, bright = float(found[:, 4:24].mean()), float(found[:, 40:60].mean())
    if brightest == 1000:
        assert dark > 253
        assert bright > 254
    else:
        assert 235 < dark < 249
        assert dark + 4 < bright < 255


@pytest.mark.parametrize(("matrix", "primaries"), [(2, 2), (9, 2), (10, 9), (2, 9)])
def test_hdr_that_says_no_more_is_of_bt_2020(matrix: int, primaries: int) -> None:
    def coloured(matrix: int, primaries: int) -> np.ndarray:
        frame = frame_of("yuv444p", (100, 112, 146))
        frame.color_trc, frame.colorspace, frame.color_primaries = 16, matrix, primaries
        return shown(frame, width=64, height=64).pixels[32, 32].astype(int)

    assert coloured(matrix, primaries).tolist() == coloured(9, 9).tolist()
    assert np.abs(coloured(9, 9) - coloured(1, 9)).max() > 5
    assert np.abs(coloured(9, 9) - coloured(9, 1)).max() > 5


# --- wide gamut of the standard range -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "primaries", "pixel"),
    [
        ("wide10.mp4", "bt2020", "yuv420p10le"),
        ("wide8.mp4", "bt2020", "yuv444p"),
        ("p3.mp4", "smpte432", "yuv422p10le"),
    ],
)
def test_wide_primaries_of_the_standard_range_keep_their_colours(
    clips: Clips, name: str, primaries: str, pixel: str
) -> None:
    path = converted(clips, name, transfer="bt709", primaries=primaries, pixel=pixel)
    watched = watch(path)
    assert apart(pixels(watched.own_frames[0]), chart(clips), (*GREYS, *COLOURS)) < 5
    assert not watched.end.remarks


# --- tags ----------------------------------------------------------------------------------------


def frame_of(pix_fmt: str = "yuv420p", levels: tuple[int, ...] = (120, 90, 160)) -> av.VideoFrame:
    frame = av.VideoFrame(64, 64, pix_fmt)
    for plane, level in zip(frame.planes, levels, strict=True):
        plane.update(bytes([level]) * plane.buffer_size)
    return frame


@pytest.mark.parametrize("attribute", ["colorspace", "color_trc", "color_primaries"])
def test_no_tag_costs_a_picture(attribute: str) -> None:
    """FFmpeg's converter refuses what H.273 reserves and what it does not know."""
    plain = shown(frame_of(), width=32, height=32).pixels[16, 16].astype(int)
    for tag in range(23):
        if attribute == "color_trc" and tag in (16, 18):
            continue
        frame = frame_of()
        setattr(frame, attribute, tag)
        made = shown(frame, width=32, height=32)
        assert np.abs(made.pixels[16, 16].astype(int) - plain).max() < 60
        assert getattr(frame, attribute) == tag
        if attribute == "colorspace":
            assert made.is_matrix_known == (tag in {*MATRICES, 0, 2, 10})


def test_colours_that_cannot_be_converted_exactly_are_said(clips: Clips) -> None:
    path = clips.make(
        "ycgco.mkv",
        *("-f", "lavfi", "-i", "color=gray:s=64x48:r=2:d=2,format=yuv444p"),
        *("-vf", "setparams=colorspace=ycgco", "-c:v", "ffv1"),
    )
    (remark,) = watch(path).remarks("colours_estimated")
    assert remark.count == 2


def test_a_transparent_colour_of_a_palette_is_white(clips: Clips) -> None:
    drawn = "format=rgba,geq=r=255:g=0:b=0:a='if(lt(X,32),0,255)',split[a][b]"
    path = clips.make(
        "palette.mov",
        *("-f", "lavfi", "-i", "color=red:s=64x48:d=1:r=2", "-filter_complex"),
        f"[0:v]{drawn};[a]palettegen=reserve_transparent=1[p];[b][p]paletteuse",
        *("-c:v", "png", "-pix_fmt", "pal8"),
    )
    found = pixels(watch(path).own_frames[0])
    assert np.abs(found[8:40, 4:24] - [255, 255, 255]).max() < 12
    assert np.abs(found[8:40, 40:60] - [255, 0, 0]).max() < 12


# --- formats --------------------------------------------------------------------------------------

FORMATS = (
    *("yuv410p", "yuv411p", "yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv440p", "yuv444p"),
    *("yuv420p10le", "yuv420p12le", "yuv422p10le", "yuv444p12le", "yuv444p16be", "nv12", "p010le"),
    *("yuyv422", "uyvy422", "y210le", "gray", "gray10le", "gray16be", "monow", "monob", "pal8"),
    *("rgb24", "bgr24", "bgr0", "0rgb", "rgb555le", "rgb555be", "rgb565be", "bgr565be", "rgb8"),
    *("rgb48be", "gbrp", "gbrp10le", "gbrp14le", "x2rgb10le", "xyz12le", "gbrpf32le"),
)
"""Of every kind that a decoder gives: 4:1:0 to 4:4:4, 8 to 16 bit, packed, one colour, palettes."""


@pytest.fixture(scope="module", params=["64x48", "63x47"])
def every_format(request: pytest.FixtureRequest, clips: Clips) -> Iterator[tuple[Path, Path]]:
    """One stream of each format, and each as FFmpeg's own RGB."""
    maps = ("-map", "0:v") * len(FORMATS)
    asked = [x for i, name in enumerate(FORMATS) for x in (f"-pix_fmt:v:{i}", name)]
    made = clips.make(
        f"all{request.param}.nut",
        *("-f", "lavfi", "-i", f"testsrc=s={request.param}:r=1:d=1,format=gbrp", *maps),
        *("-c:v", "rawvideo", "-strict", "-2", *asked),
    )
    meant = clips.make(
        f"rgb{request.param}.nut",
        *("-i", str(made), "-map", "0:v", "-filter:v", "scale=flags=area"),
        *("-c:v", "rawvideo", "-pix_fmt", "rgb24"),
    )
    return made, meant


def first_pictures(path: Path) -> list[av.VideoFrame]:
    found: dict[int, av.VideoFrame] = {}
    with av.open(str(path)) as container:
        for packet in container.demux():
            for frame in packet.decode():
                found.setdefault(packet.stream.index, frame)
    return [found[index] for index in sorted(found)]


def test_every_pixel_format_comes_out_as_ffmpeg_shows_it(every_format: tuple[Path, Path]) -> None:
    made, meant = (first_pictures(path) for path in every_format)
    assert len(made) == len(meant) == len(FORMATS)
    off = {}
    for name, frame, reference in zip(FORMATS, made, meant, strict=True):
        found = upright(frame, aspect=Fraction(1), longest_edge_px=448).pixels
        off[name] = np.abs(found.astype(int) - reference.to_ndarray()).mean()
    assert {name: value for name, value in off.items() if value > 2.5} == {}
