"""When the samples of a track are decoded and presented, by the tables of an MP4 file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeline.media.mp4.boxes import Unclear
from pipeline.media.mp4.chunks import SAMPLES_AT_ONCE, Stretch
from pipeline.media.mp4.numbers import INTEGERS
from pipeline.media.mp4.runs import Cursor, Runs

DELTA_MAX = (1 << 32) - 1 - 48_000 * 10
"""Ticks between two samples beyond which FFmpeg takes them for an error (its `max_stts_delta`)."""

AHEAD_MAX = 16
"""Samples that are decoded before one and presented after it, as far as FFmpeg counts them."""

LAGS = 2 * AHEAD_MAX

EARLIEST = -(1 << 62)


@dataclass
class Times:
    """What the times of all samples say."""

    ahead_at: int = 0
    """A sample before which most are decoded that are presented after it."""
    by_time: dict[int, int] = field(default_factory=dict)
    """For each of the wanted decode times, the first sample that is not before it."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Where a sample stands in the tables of times."""

    sample: int
    time: int
    """When it is decoded, in ticks."""
    decode: Cursor
    present: Cursor


class SampleTimes:
    """The tables of times (ISO/IEC 14496-12, 8.6.1)."""

    def __init__(self, *, samples: int, decode: Runs, present: Runs | None) -> None:
        """Raises Unclear where FFmpeg would not go by them as they are."""
        self._samples = samples
        self._decode = decode
        self._present = present
        deltas = decode.totals()
        if deltas.samples != samples or deltas.has_empty or deltas.most > DELTA_MAX:
            raise Unclear
        if decode.entries == 1 and deltas.most == 1:
            raise Unclear  # single samples of sound, which FFmpeg puts together
        self.ticks = deltas.sum
        """From the first sample's time to the last one's end."""
        self.apart_ticks = 0
        """By how much presentation follows decoding, or decoding presentation, at most."""
        self._before_ticks = 0
        self.is_reordered = present is not None
        if present is not None:
            shifts = present.totals()
            if shifts.samples != samples or shifts.has_empty:
                raise Unclear
            self._before_ticks = max(-shifts.least, 0)
            self.apart_ticks = max(shifts.most, self._before_ticks)

    def check_beginning(self, samples: int) -> None:
        """Raises Unclear unless so many show by how much decoding follows presentation at most.

        By as much FFmpeg moves the times of all, going by every entry but the last two.
        """
        if self._present is not None and self._before_ticks:
            _, shifts, _ = self._present.take(Cursor(), samples)
            if -int(shifts[:-2].min(initial=0)) != self._before_ticks:
                raise Unclear

    def look(self, wanted: Sequence[int]) -> Times:
        """One pass over the times of all samples. Raises Unclear where they run wild."""
        found = Times()
        left = sorted(wanted)
        most, passed = -1, EARLIEST
        recent: INTEGERS = np.empty(0, np.int64)
        for first, decoded, shown in self._shown():
            while left and left[0] <= decoded[-1]:
                time = left.pop(0)
                found.by_time[time] = first + int(np.searchsorted(decoded, time))
            if self._present is None:
                continue
            base = first - len(recent)
            recent = np.concatenate((recent, shown))
            ahead = _count_ahead(recent)
            if shown.min() < passed or ahead.max() > AHEAD_MAX:
                raise Unclear
            if ahead.max() > most:
                most = int(ahead.max())
                found.ahead_at = base + int(ahead.argmax())
            passed = max(passed, int(recent[:-LAGS].max(initial=EARLIEST)))
            recent = recent[-LAGS:]
        return found

    @property
    def first_shift(self) -> int:
        """By how many ticks the first sample is presented after it is decoded."""
        return 0 if self._present is None else int(self._present.take(Cursor(), 1)[1][0])

    def marks(self, samples: Iterable[int]) -> dict[int, Mark]:
        """Where the tables stand at each of these samples, which they are cut at."""
        found = {}
        mark = Mark(sample=0, time=0, decode=Cursor(), present=Cursor())
        for sample in sorted(set(samples)):
            while mark.sample < sample:
                n = min(SAMPLES_AT_ONCE, sample - mark.sample)
                counts, deltas, decode = self._decode.take(mark.decode, n)
                present = mark.present
                if self._present is not None:
                    _, _, present = self._present.take(present, n)
                time = mark.time + int((counts * deltas).sum())
                mark = Mark(sample=mark.sample + n, time=time, decode=decode, present=present)
            found[sample] = mark
        return found

    def cut_decode(self, stretches: Sequence[Stretch], marks: Mapping[int, Mark]) -> bytes:
        counts: list[INTEGERS] = []
        values: list[INTEGERS] = []
        for place, stretch in enumerate(stretches):
            start, end = marks[stretch.sample], marks[stretch.sample_end]
            some, deltas, _ = self._decode.take(start.decode, end.sample - start.sample)
            if place + 1 < len(stretches):
                gap = int(deltas[-1]) + marks[stretches[place + 1].sample].time - end.time
                if gap > DELTA_MAX:
                    raise Unclear
                some[-1] -= 1
                some, deltas = np.append(some, 1), np.append(deltas, gap)
            counts.append(some[some > 0])
            values.append(deltas[some > 0])
        return _pairs(counts, values)

    def cut_present(self, stretches: Sequence[Stretch], marks: Mapping[int, Mark]) -> bytes:
        assert self._present is not None
        counts: list[INTEGERS] = []
        values: list[INTEGERS] = []
        for stretch in stretches:
            n = stretch.sample_end - stretch.sample
            some, shifts, _ = self._present.take(marks[stretch.sample].present, n)
            counts.append(some)
            values.append(shifts)
        return _pairs(counts, values)

    def _shown(self) -> Iterator[tuple[int, INTEGERS, INTEGERS]]:
        """Samples in a row: the first of them, when they are decoded, and when presented."""
        time = 0
        decode, present = Cursor(), Cursor()
        for first in range(0, self._samples, SAMPLES_AT_ONCE):
            n = min(SAMPLES_AT_ONCE, self._samples - first)
            counts, deltas, decode = self._decode.take(decode, n)
            steps = np.repeat(deltas, counts)
            decoded = time + steps.cumsum() - steps
            time = int(decoded[-1] + steps[-1])
            shown = decoded
            if self._present is not None:
                counts, shifts, present = self._present.take(present, n)
                shown = decoded + np.repeat(shifts, counts)
            yield first, decoded, shown


def _count_ahead(shown: INTEGERS) -> INTEGERS:
    """How many of the samples before each one are presented after it. Raises Unclear."""
    reached = np.maximum.accumulate(shown)
    if (reached[: -LAGS - 1] > shown[LAGS + 1 :]).any():
        raise Unclear
    ahead = np.zeros(len(shown), np.int64)
    for lag in range(1, min(LAGS, len(shown) - 1) + 1):
        ahead[lag:] += shown[:-lag] > shown[lag:]
    return ahead


def _pairs(counts: list[INTEGERS], values: list[INTEGERS]) -> bytes:
    table = np.stack((np.concatenate(counts), np.concatenate(values)), axis=1).astype(">u4")
    return len(table).to_bytes(4, "big") + table.tobytes()
