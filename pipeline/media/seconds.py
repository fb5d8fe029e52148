"""Collects samples by their place on the 16 kHz source clock and gives out whole seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.clock import SAMPLE_RATE_HZ, SAMPLES_PER_UNIT
from pipeline.media.mixdown import FLOAT

OVERLAP_SAMPLES = SAMPLE_RATE_HZ // 2
"""How far back a new part may begin inside what was written: less than a clock reset (0.5 s)."""


@dataclass(frozen=True, kw_only=True)
class AudioSecond:
    """One source second that has at least one real sample."""

    second: int
    samples: FLOAT
    """16,000 samples at 16 kHz, zero where the source has none."""
    real_samples: int
    real_start: int
    """First real sample's index on the 16 kHz source clock."""
    real_end: int
    """One past the last real sample's index."""


class Seconds:
    """Holds the seconds that can still be written to: two, and a third while it begins."""

    def __init__(self) -> None:
        self.reached = 0
        """Index after the last sample written."""
        self.floor = 0
        """The first index that can still be written to."""
        self._open: dict[int, FLOAT] = {}
        self._real: deque[list[int]] = deque()
        self._fade = (0, 0)
        """First and last index between which what is written next fades in."""

    def mark_real(self, first: int, end: int) -> None:
        """Indexes from `first` to before `end` hold real samples."""
        later = []
        while self._real and self._real[-1][1] >= first:
            last = self._real.pop()
            if last[0] > end:
                later.append(last)
            else:
                first, end = min(first, last[0]), max(end, last[1])
        self._real.append([first, end])
        self._real.extend(reversed(later))

    def fade_from(self, position: int) -> None:
        """What was written from here on fades out; what is written next from here on fades in.

        Where not all of what was written is real the two are added up.
        """
        if not self._real or self._real[-1][0] > position:
            return
        self._fade = (position, self.reached)
        for second, samples in self._open.items():
            part, rise = self._rise(second * SAMPLES_PER_UNIT, samples.size)
            samples[part] *= 1 - rise

    def _rise(self, position: int, size: int) -> tuple[slice, FLOAT]:
        """Which of `size` samples at `position` are in the fade, and what part of them is new."""
        start, end = self._fade
        first = min(max(position, start), position + size)
        last = max(min(position + size, end), first)
        index = np.arange(first - start, last - start, dtype=np.float32) + np.float32(0.5)
        rise: FLOAT = index / np.float32(max(end - start, 1))
        return slice(first - position, last - position), rise

    def write(self, position: int, samples: FLOAT) -> Iterator[AudioSecond]:
        """Add samples at their index, `floor` or later; yields what is complete by then."""
        taken = 0
        while taken < samples.size:
            second, offset = divmod(position + taken, SAMPLES_PER_UNIT)
            part = samples[taken : taken + SAMPLES_PER_UNIT - offset]
            if second not in self._open:
                yield from self._give(before=second * SAMPLES_PER_UNIT - OVERLAP_SAMPLES)
                self._open[second] = np.zeros(SAMPLES_PER_UNIT, np.float32)
            if position + taken < self._fade[1]:
                where, rise = self._rise(position + taken, part.size)
                part = part.copy()
                part[where] *= rise
            self._open[second][offset : offset + part.size] += part
            taken += part.size
        self.reached = max(self.reached, position + samples.size)
        yield from self._give(before=self.reached - OVERLAP_SAMPLES)

    def finish(self) -> Iterator[AudioSecond]:
        """What is left."""
        yield from self._give(before=self.reached + SAMPLES_PER_UNIT)

    def _give(self, *, before: int) -> Iterator[AudioSecond]:
        """Seconds that end at or before an index."""
        for second in sorted(self._open):
            start, end = second * SAMPLES_PER_UNIT, (second + 1) * SAMPLES_PER_UNIT
            if end > before:
                return
            samples = self._open.pop(second)
            self.floor = end
            overlaps = [
                (max(first, start), min(last, end))
                for first, last in self._real
                if first < end and last > start
            ]
            while self._real and self._real[0][1] <= end:
                self._real.popleft()
            if overlaps:
                # The resampler rings into what is filled, and the sum of two parts may be too loud.
                heard = np.zeros_like(samples)
                for first, last in overlaps:
                    part = slice(first - start, last - start)
                    np.clip(samples[part], -1.0, 1.0, out=heard[part])
                yield AudioSecond(
                    second=second,
                    samples=heard,
                    real_samples=sum(last - first for first, last in overlaps),
                    real_start=overlaps[0][0],
                    real_end=overlaps[-1][1],
                )
