"""The media process needs no more memory for a long recording than for a short one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from omnai.trial.resident import peak_resident_bytes
from pipeline.media_child import MediaChild
from pipeline.records import MediaEnd, Unit
from pipeline.settings import MediaLimits
from tests.clips import AAC, H264, Clips, clips

__all__ = ["clips"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak")

GROWTH_MAX = 1.1
"""Of the peak. Allocators settle within some megabytes; one kept picture a second would be far
more, and so would FFmpeg's index of a long MP4 file."""

IS_LONG = bool(os.environ.get("OMNAI_TEST_LONG"))
LENGTHS_S = (600, 6 * 3600) if IS_LONG else (20, 120)


def repeated(clips: Clips, container: str, seconds: int) -> Path:
    """The same 20 s again and again, by their packets."""
    once = clips.make(
        "once.mkv",
        *("-f", "lavfi", "-i", "testsrc=s=128x72:r=25:d=20"),
        *("-f", "lavfi", "-i", "sine=f=440:r=16000:d=20"),
        *(*H264, "-g", "50", *AAC, "-b:a", "24k", "-shortest"),
    )
    loops = str(seconds // 20 - 1)
    return clips.make(
        f"{seconds}.{container}", "-stream_loop", loops, "-i", str(once), "-c", "copy"
    )


def peak_over(path: Path, *, units_max: int | None = None) -> tuple[int, int]:
    """Bytes, and the source's length in ms."""
    peak = end_ms = units = 0
    with MediaChild(path, limits=MediaLimits(), longest_edge_px=448) as media:
        for event in media:
            if isinstance(event, Unit):
                units += 1
                peak = peak_resident_bytes(media.pid) or peak
                if units == units_max:
                    break
            elif isinstance(event, MediaEnd):
                end_ms = event.source_end_ms
    return peak, end_ms


def test_memory_does_not_grow_with_the_length_of_the_recording(clips: Clips) -> None:
    (short, short_ms), (long, long_ms) = (
        peak_over(repeated(clips, "mkv", seconds)) for seconds in LENGTHS_S
    )
    assert (short_ms // 1000, long_ms // 1000) == pytest.approx(LENGTHS_S, rel=0.01)
    assert 0 < long < GROWTH_MAX * short


UNITS_MAX = 60
"""Enough for both passes to have begun: what an index takes, it takes while a file is opened."""


@pytest.mark.skipif(not IS_LONG, reason="makes recordings of six hours: set OMNAI_TEST_LONG=1")
@pytest.mark.parametrize("container", ["mp4", "ts"])
def test_a_recording_of_six_hours_takes_what_one_of_ten_minutes_takes(
    clips: Clips, container: str
) -> None:
    (short, _), (long, _) = (
        peak_over(repeated(clips, container, seconds), units_max=UNITS_MAX) for seconds in LENGTHS_S
    )
    assert 0 < long < GROWTH_MAX * short


def test_an_mp4_file_takes_no_index_of_all_its_packets(clips: Clips) -> None:
    """Of a quarter of a million, which FFmpeg takes 17 MB for."""
    once = clips.make(
        "dense.mp4",
        *("-f", "lavfi", "-i", "color=s=32x32:r=100:d=20"),
        *("-f", "lavfi", "-i", "anullsrc=r=48000:cl=mono"),
        *(*H264, "-g", "100", *AAC, "-b:a", "24k", "-t", "20"),
    )
    short, long = (
        clips.make(f"dense-{loops}.mp4", "-stream_loop", str(loops), "-i", str(once), "-c", "copy")
        for loops in (1, 85)
    )
    (few, _), (many, _) = (peak_over(path, units_max=20) for path in (short, long))
    assert 0 < many < GROWTH_MAX * few
