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

GROWTH_MAX_BYTES = 8 * 1024**2
"""Allocators settle within some megabytes; one kept picture a second would be far more."""

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


INDEX_BYTES_MAX = 72
"""Of a packet of an MP4 file: FFmpeg keeps 40 of its index, and takes as many again while it opens
the file; each pass has those of its own track only."""


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
    assert short > 0
    assert long - short < GROWTH_MAX_BYTES


@pytest.mark.skipif(not IS_LONG, reason="makes a recording of six hours: set OMNAI_TEST_LONG=1")
def test_an_mp4_file_takes_no_more_than_one_index_of_its_packets(clips: Clips) -> None:
    """Only that much is the file format's own: all its times stand in one place."""
    (short, _), (long, _) = (
        peak_over(repeated(clips, "mp4", seconds), units_max=120) for seconds in LENGTHS_S
    )
    packets = (25 + 16_000 / 1024) * (LENGTHS_S[1] - LENGTHS_S[0])
    assert long - short < GROWTH_MAX_BYTES + INDEX_BYTES_MAX * packets
