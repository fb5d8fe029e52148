"""A stretch that nothing is fed of is a gap, told once; sound is missing only where units are."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from tests.clips import H264, Clips
from tests.pipeline.media.remux import Edit, remux
from tests.pipeline.media.watched import Watched, check_tone, watch

PAUSE_S = 40


def paused(clips: Clips, *, until: float, since: float) -> Path:
    """Eight seconds with a pause of forty after the fourth; without sound from `until` before it
    to `since` of the clip's own time.
    """
    whole = clips.encoded("whole.mkv", 8, *H264, "-g", "10", "-c:a", "flac")
    edits = {}
    for kind in ("audio", "video"):
        with av.open(str(whole)) as container:
            base = container.streams.get({kind: 0})[0].time_base
            assert base is not None
            times = [p.pts * base for p in container.demux({kind: 0}) if p.pts is not None]
        for n, time in enumerate(times):
            is_lost = kind == "audio" and until <= time + 0.001 < since
            edits[kind, n] = Edit(is_lost=is_lost, shift_s=PAUSE_S if time + 0.001 >= 4 else 0)
    return remux(whole, edits)


def missing(watched: Watched) -> list[tuple[int | None, int | None]]:
    return [(remark.start_ms, remark.end_ms) for remark in watched.remarks("audio_missing")]


def test_a_pause_of_all_is_a_gap_and_no_missing_sound(clips: Clips) -> None:
    watched = watch(paused(clips, until=4, since=4))
    # A packet of second 3 reaches into 4, and so much later the sound begins after the pause.
    assert watched.seconds[:9] == [*range(5), *range(44, 48)]
    (gap,) = watched.gaps
    late_ms = gap.start_ms - 4000
    assert 0 < late_ms < 100
    assert missing(watched) == [
        (gap.start_ms, 5000),
        (44_000, pytest.approx(44_000 + late_ms, abs=1)),
    ]
    assert watched.end.filled_samples / 16 == pytest.approx(1000, abs=2)
    check_tone(watched.unit(45), 5)


def test_sound_that_is_missing_on_both_sides_of_a_gap_is_told_on_both(clips: Clips) -> None:
    watched = watch(paused(clips, until=2, since=5.5))
    assert watched.seconds == [*range(4), *range(44, 48)]
    (gap,) = watched.gaps
    assert (gap.start_ms, gap.end_ms) == (3900, 44_000)
    before, after = missing(watched)
    assert before == (pytest.approx(2000, abs=100), 4000)
    assert after == (44_000, pytest.approx(45_500, abs=100))
    told_ms = sum(remark.end_ms - remark.start_ms for remark in watched.remarks("audio_missing"))
    assert told_ms == pytest.approx(watched.end.filled_samples / 16, abs=2)
