"""Hours into a recording a second is as exact as the first, and memory has not grown."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from pipeline.media_child import MediaChild
from pipeline.records import MediaEnd, Unit
from pipeline.settings import MediaLimits
from tests.clips import H264, TONE, Clips
from tests.pipeline.media.agreement import tone_place
from tests.pipeline.media.test_exactness import LONG_SETTING
from tests.pipeline.media.watched import check_grey, samples

EXACT_S = 0.001

CYCLE = 6
"""Sound and grey begin again after so many seconds: greys stay in range."""

MIB = 1024 * 1024
GROWTH_MAX = 12 * MIB
"""What the heap of one process varies by."""


@pytest.mark.parametrize(
    "minutes",
    [
        4,
        pytest.param(
            360,
            marks=[
                pytest.mark.skipif(
                    os.environ.get(LONG_SETTING) != "1",
                    reason=f"takes minutes: set {LONG_SETTING}=1 to run it",
                ),
                pytest.mark.timeout(1800),
            ],
        ),
    ],
)
def test_the_last_seconds_are_as_exact_as_the_first(clips: Clips, minutes: int) -> None:
    seconds = minutes * 60
    second, part = f"mod(floor(t)\\,{CYCLE})", "mod(t\\,1)"
    wave = f"{TONE}*sin(2*PI*((400+250*{second})*{part}+200*{part}^2))*lt({part}\\,0.5)"
    path = clips.make(
        f"{minutes}.mkv",
        *("-f", "lavfi", "-i", f"aevalsrc={wave}:s=11025:d={seconds}"),
        *("-f", "lavfi", "-i", f"color=black:s=32x32:r=1:d={seconds},format=yuv420p,{GREYS}"),
        *(*H264, "-g", "30", "-c:a", "flac"),
    )
    early, late = [], deque[Unit](maxlen=8)
    peaks = []
    with MediaChild(path, limits=MediaLimits(), longest_edge_px=64) as media:
        for event in media:
            if isinstance(event, MediaEnd):
                end = event
            if not isinstance(event, Unit):
                continue
            late.append(event)
            if event.second % 600 == 120:
                early.append(event)
                peaks.append(peak_bytes(media.pid))
    assert end.units == seconds
    assert end.real_samples == seconds * 16_000
    for unit in (*early, *late):
        line = np.concatenate([samples(unit), np.zeros(16_000, np.float32)])
        at, share = tone_place(line, unit.second % CYCLE, 16_000)
        assert abs(at) < EXACT_S
        assert share > 0.95
        check_grey(unit.frame, unit.second % CYCLE)
    assert max(peaks) - peaks[0] < GROWTH_MAX


GREYS = f"geq=lum='20+10*mod(floor(T+0.000001)\\,{CYCLE})':cb=128:cr=128"


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had at once; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
