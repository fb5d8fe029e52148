"""How long the picture was black or stood still is told as FFmpeg's own detectors tell it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pipeline.media.remarks import RemarkBook
from pipeline.media.screen import Screen
from pipeline.records import Remark
from tests.clips import H264, Clips, run_ffmpeg
from tests.pipeline.media.watched import watch

FRAME_MS = 200

CHANGING_MS = 28_000
"""Length of the clip that changes."""


def moving(seconds: int) -> str:
    return f"testsrc2=s=64x48:r=5:d={seconds}"


def still(seconds: int) -> str:
    return f"smptebars=s=64x48:r=5:d={seconds}"


def black(seconds: int) -> str:
    return f"color=black:s=64x48:r=5:d={seconds}"


def joined(clips: Clips, name: str, *parts: str, codec: tuple[str, ...] = ("-c:v", "ffv1")) -> Path:
    inputs = [x for part in parts for x in ("-f", "lavfi", "-i", f"{part},format=yuv420p")]
    return clips.make(name, *inputs, "-filter_complex", f"concat=n={len(parts)}", *codec)


def detected(path: Path, detector: str, kind: str) -> list[tuple[float, float]]:
    """What FFmpeg's filter finds, in ms; an end that it does not say is the clip's."""
    told = run_ffmpeg(
        *("-i", str(path), "-vf", f"{detector},metadata=print:file=-", "-f", "null", "-")
    ).decode()
    starts, ends = (
        [1000 * float(x) for x in re.findall(rf"{kind}_{edge}=([\d.]+)", told)]
        for edge in ("start", "end")
    )
    return list(zip(starts, [*ends, CHANGING_MS], strict=False))


def ranges(remarks: list[Remark]) -> list[tuple[int, int]]:
    found = [(remark.start_ms, remark.end_ms) for remark in remarks]
    assert all(start is not None and end is not None for start, end in found)
    return found  # type: ignore[return-value] # as asserted


@pytest.fixture(params=["mkv", "mp4"])
def changing(request: pytest.FixtureRequest, clips: Clips) -> Path:
    return joined(
        clips,
        f"changing.{request.param}",
        *(moving(3), black(4), moving(3), still(13), moving(2), black(3)),
        codec=("-c:v", "ffv1") if request.param == "mkv" else (*H264, "-qp", "10"),
    )


def test_black_and_still_stretches_are_those_that_ffmpeg_detects(changing: Path) -> None:
    """To the second, as pictures are seen; each begins and ends on a whole second here."""
    watched = watch(changing)
    black_ms = detected(changing, "blackdetect", "black")
    still_ms = detected(changing, "freezedetect=d=10", "freeze")
    assert (len(black_ms), len(still_ms)) == (2, 1)
    assert ranges(watched.remarks("picture_black")) == [
        pytest.approx(found, abs=FRAME_MS) for found in black_ms
    ]
    assert ranges(watched.remarks("picture_frozen")) == [
        pytest.approx(found, abs=FRAME_MS) for found in still_ms
    ]


def test_a_recording_that_moves_says_nothing(clips: Clips) -> None:
    path = joined(clips, "short.mkv", moving(3), black(1), moving(2), still(8), moving(2))
    assert watch(path).end.remarks == ()


def test_a_slide_show_of_few_pictures_is_told_once_with_their_count(clips: Clips) -> None:
    """A picture every 12 s and none between: each stands until the next."""
    path = clips.make(
        "slides.mkv", "-f", "lavfi", "-i", "testsrc2=r=1/12:d=60:s=64x48", "-c:v", "ffv1"
    )
    (remark,) = watch(path).remarks("picture_frozen")
    assert (remark.start_ms, remark.end_ms, remark.count) == (0, 48_000, 4)


def test_a_picture_that_is_held_counts_as_standing(clips: Clips) -> None:
    """One picture and 70 s of sound: it is fed again twice, and black all the time."""
    path = clips.make(
        "held.mkv",
        *("-f", "lavfi", "-i", "color=black:r=1:d=1:s=64x48", "-f", "lavfi", "-i", "sine=d=70"),
        *("-c:v", "ffv1", "-c:a", "flac"),
    )
    watched = watch(path)
    assert list(watched.held_frames) == [30, 60]
    assert ranges(watched.remarks("picture_black")) == [(0, 60_000)]


def test_what_lies_before_the_wanted_start_is_not_told(changing: Path) -> None:
    found = ranges(watch(changing, start_s=8).remarks("picture_black"))
    assert [start // 1000 for start, _ in found] == [25]


# --- what is measured, picture by picture ---------------------------------------------------------


def grey(level: int, edge_px: int = 64) -> np.ndarray:
    return np.full((edge_px * 3 // 4, edge_px, 3), level, np.uint8)


def told(
    pictures: list[np.ndarray], *, step_ms: int = 1000, lost: tuple[int, ...] = ()
) -> dict[str, list[tuple[int, int, int]]]:
    """Start, end and count of what is said of one picture each `step_ms`."""
    book = RemarkBook()
    screen = Screen(book)
    for number, picture in enumerate(pictures):
        screen.see(picture, at_ms=number * step_ms, stood=number not in lost)
    screen.end(len(pictures) * step_ms, stood=len(pictures) not in lost)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for remark in book.remarks():
        assert remark.start_ms is not None
        assert remark.end_ms is not None
        found.setdefault(remark.code, []).append((remark.start_ms, remark.end_ms, remark.count))
    return found


@pytest.mark.parametrize(
    ("level", "share", "is_black"),
    [
        (25, 1.0, True),
        (26, 1.0, False),
        (0, 0.985, True),
        (0, 0.975, False),
    ],
)
def test_black_is_what_ffmpeg_means_by_it(level: int, share: float, *, is_black: bool) -> None:
    picture = grey(255)
    picture.reshape(-1, 3)[: int(share * 64 * 48)] = level
    found = told([picture] * 5)
    assert ("picture_black" in found) == is_black


def test_noise_of_a_codec_is_stillness_and_that_of_a_camera_is_not() -> None:
    """freezedetect's -60 dB: a thousandth of the scale, 0.255 levels."""
    random = np.random.default_rng(1)
    base = grey(120).astype(int)

    def noisy(share: float) -> list[np.ndarray]:
        shape = (*base.shape[:2], 1)
        return [(base + (random.random(shape) < share)).astype(np.uint8) for _ in range(15)]

    assert "picture_frozen" in told(noisy(0.1))
    assert "picture_frozen" not in told(noisy(0.4))


def test_slow_change_adds_up_against_the_first_picture() -> None:
    fading = [grey(100 + number) for number in range(15)]
    assert told(fading) == {}


def test_a_stretch_ends_where_something_is_lost() -> None:
    """The first of both is too short to be told; two that adjoin are one line."""
    assert told([grey(0)] * 6, lost=(2,))["picture_black"] == [(2000, 6000, 1)]
    assert told([grey(0)] * 10, lost=(5,))["picture_black"] == [(0, 10_000, 2)]


def test_nothing_is_said_of_time_in_which_nothing_was_seen() -> None:
    assert told([grey(0), grey(0), grey(9)], step_ms=40_000) == {}
    assert told([grey(0), grey(200)], step_ms=30_000)["picture_black"] == [(0, 30_000, 1)]


def test_a_night_of_slides_stays_one_line() -> None:
    slides = [grey(40 + number % 200) for number in range(300) for _ in range(12)]
    assert told(slides)["picture_frozen"] == [(0, 3_600_000, 300)]


def test_of_a_black_picture_it_is_told_that_it_is_black() -> None:
    assert told([grey(0)] * 15) == {"picture_black": [(0, 15_000, 1)]}


def test_a_larger_picture_is_measured_as_a_smaller_one_is() -> None:
    """Its noise is that of single pixels, which go into one of the smaller."""
    random = np.random.default_rng(2)
    assert told([grey(0, 1920)] * 3) == told([grey(0)] * 3)
    noisy = [grey(120, 1920) + (random.random((1440, 1920, 1)) < 0.3) for _ in range(12)]
    assert told([picture.astype(np.uint8) for picture in noisy]) == told([grey(120)] * 12)
