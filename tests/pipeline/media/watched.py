"""A recording as units, read in the test's own process, and what its units hold."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.media.source import open_source
from pipeline.media.units import UnitMerger
from pipeline.records import Frame, Gap, MediaEnd, Probe, Remark, Unit
from pipeline.settings import MediaLimits
from tests.clips import SAMPLES, grey, lag_samples, loudest_hz, rgb, tone_hz

LAG_MAX = 16
"""One millisecond at 16 kHz: containers round to it."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    probe: Probe
    units: list[Unit]
    gaps: list[Gap]
    end: MediaEnd

    def unit(self, second: int) -> Unit:
        (found,) = [unit for unit in self.units if unit.second == second]
        return found

    @property
    def seconds(self) -> list[int]:
        return [unit.second for unit in self.units]

    @property
    def sound(self) -> SAMPLES:
        return np.concatenate([samples(unit) for unit in self.units])

    @property
    def own_frames(self) -> dict[int, Frame]:
        """Frames by second, without held ones."""
        return {u.second: u.frame for u in self.units if u.frame and not u.is_frame_held}

    @property
    def held_frames(self) -> dict[int, Frame]:
        return {u.second: u.frame for u in self.units if u.frame and u.is_frame_held}

    def remarks(self, code: str) -> list[Remark]:
        return [remark for remark in self.end.remarks if remark.code == code]


def watch(
    path: Path,
    *,
    start_s: int = 0,
    limits: MediaLimits | None = None,
    longest_edge_px: int = 448,
) -> Watched:
    """Everything of one recording; the rules that hold for every recording are checked here."""
    source = open_source(
        str(path), start_s=start_s, limits=limits or MediaLimits(), pulse=lambda: None
    )
    merger = UnitMerger(source, start_s=start_s, longest_edge_px=longest_edge_px)
    events = list(merger.events())
    end = events[-1]
    assert isinstance(end, MediaEnd)
    watched = Watched(
        probe=source.probe,
        units=[event for event in events if isinstance(event, Unit)],
        gaps=[event for event in events if isinstance(event, Gap)],
        end=end,
    )
    check_rules(watched)
    return watched


def samples(unit: Unit) -> SAMPLES:
    return np.frombuffer(unit.pcm, "<f4")


def pixels(frame: Frame) -> SAMPLES:
    return np.asarray(Image.open(io.BytesIO(frame.jpeg)).convert("RGB"), np.float32)


def check_rules(watched: Watched) -> None:
    """What design.md's rules 5 and 6 say of every unit of every recording."""
    units, end = watched.units, watched.end
    for unit in units:
        assert unit.start_ms == unit.second * 1000
        counts = (unit.real_samples, unit.filled_samples, unit.synthetic_samples)
        assert min(counts) >= 0
        assert sum(counts) == 16_000
        heard = samples(unit)
        assert heard.size == 16_000
        assert np.isfinite(heard).all()
        assert np.abs(heard).max() <= 1.0
        # A filter rings past each edge of a hole, of which a second may have a few.
        assert np.count_nonzero(heard) <= unit.real_samples + 256
    for unit, following in pairwise(units):
        assert unit.synthetic_samples == 0
        assert unit.end_ms == unit.start_ms + 1000
        if following.second != unit.second + 1:
            jumped = [
                gap
                for gap in watched.gaps
                if unit.start_ms <= gap.start_ms <= unit.end_ms
                and following.start_ms <= gap.end_ms <= following.end_ms
            ]
            assert len(jumped) == 1
            assert jumped[0].end_ms - jumped[0].start_ms > 30_000
            for missing in watched.remarks("audio_missing"):
                assert missing.start_ms is not None
                assert missing.end_ms is not None
                assert missing.end_ms <= unit.end_ms or missing.start_ms >= following.start_ms
    last = units[-1]
    assert last.end_ms == end.source_end_ms
    assert abs(last.synthetic_samples - (last.start_ms + 1000 - last.end_ms) * 16) <= 16
    own = watched.own_frames
    for second, frame in own.items():
        assert frame.source_ms // 1000 == second or frame.source_ms == second * 1000 + 1000
        assert len(frame.jpeg) <= 512_000
    assert (end.units, end.own_frames, end.held_frames) == (
        len(units),
        len(own),
        len(watched.held_frames),
    )
    assert end.real_samples == sum(unit.real_samples for unit in units)
    assert end.filled_samples == sum(unit.filled_samples for unit in units)
    assert end.synthetic_samples == sum(unit.synthetic_samples for unit in units)


def check_tone(unit: Unit, second: int, *, lag_max: int = LAG_MAX, offset: int = 0) -> None:
    """The unit holds the tone of this source second, where the source has it."""
    heard = samples(unit)
    assert loudest_hz(heard) == tone_hz(second)
    assert abs(lag_samples(heard, second) - offset) <= lag_max
    assert np.abs(heard[:8000]).max() > 0.3
    assert np.sqrt(np.mean(np.square(heard[8800:15_200]))) < 0.02


def check_grey(frame: Frame | None, second: int, *, tolerance: float = 3.0) -> None:
    """The frame shows the grey of this source second."""
    assert frame is not None
    shown = pixels(frame)
    assert abs(float(shown.mean()) - rgb(grey(second))) < tolerance
