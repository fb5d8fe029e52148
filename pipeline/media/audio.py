"""The sound of a recording as seconds of 16 kHz mono, each sample at its source time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

import numpy as np

from pipeline.clock import SAMPLE_RATE_HZ, SAMPLES_PER_UNIT, milliseconds, sample_index
from pipeline.media.mixdown import FLOAT
from pipeline.media.remarks import RemarkBook
from pipeline.media.resample import Resampler

TOLERANCE_S = Fraction(1, 100)
"""A hole above 10 ms is filled: the shortest lost packet worth noticing (AAC 21 ms, MP3 26 ms) is
longer, and time stamps rounded to 1 ms jitter by less."""

BACK_JUMP_S = Fraction(1, 2)
"""A step back of this much that the packet scan did not see is continued, never overwritten."""

PAUSE_S = Fraction(2)
"""A longer hole ends the resampler's stretch, so that hours of silence cost nothing."""


@dataclass(frozen=True, kw_only=True)
class Sound:
    """Decoded mono samples of one frame."""

    start: Fraction | None
    """Source time in seconds; None where the file gives none."""
    samples: FLOAT
    rate_hz: int


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


class AudioPlacer:
    """Places sounds on the source clock.

    A hole is filled with counted zeros, drift is corrected by the median error of the last second,
    and every real sample is kept in order.
    """

    def __init__(self, remarks: RemarkBook) -> None:
        self._remarks = remarks
        self._seconds = _Seconds()
        self._resampler: Resampler | None = None
        self._anchor = Fraction(0)
        """Source time of the resampler's first sample."""
        self._anchor_index = 0
        self._frame_end: Fraction | None = None
        """Where the last frame's own time says it ends."""
        self._shift = Fraction(0)
        self._errors: deque[tuple[int, int]] = deque()
        """Error and length of each frame of about the last second, in µs."""
        self._errors_us = 0
        self._waiting: Sound | None = None
        """The last frame taken in: whether a hole lies before it, the next one tells."""

    def place(self, sound: Sound) -> Iterator[AudioSecond]:
        """Take in one frame; yields the seconds that are now complete."""
        if sound.samples.size == 0:
            return
        placed, self._waiting = self._waiting, sound
        if placed is not None:
            yield from self._place(placed, sound)

    def _place(self, sound: Sound, following: Sound | None) -> Iterator[AudioSecond]:
        cursor = self._cursor()
        start = cursor if sound.start is None else max(sound.start, Fraction(0)) + self._shift
        duration = Fraction(sound.samples.size, sound.rate_hz)
        if self._resampler is None or cursor is None:
            yield from self._begin(start or Fraction(0), sound.rate_hz)
        else:
            assert start is not None
            yield from self._follow(start, cursor, duration, sound, following)
            return
        yield from self._feed_real(sound.samples)
        self._frame_end = (start or Fraction(0)) + duration

    def finish(self) -> Iterator[AudioSecond]:
        """The rest of the sound."""
        if self._waiting is not None:
            yield from self._place(self._waiting, None)
        yield from self._end_stretch()
        yield from self._seconds.finish()

    def _follow(
        self,
        start: Fraction,
        cursor: Fraction,
        duration: Fraction,
        sound: Sound,
        following: Sound | None,
    ) -> Iterator[AudioSecond]:
        error = start - cursor
        step = start - (self._frame_end if self._frame_end is not None else cursor)
        samples = sound.samples
        if error < -BACK_JUMP_S:
            self._note("clock_reset", "the sound's clock jumped back; it was continued", cursor)
            self._shift -= error
            start, error = cursor, Fraction(0)
        elif (
            error > TOLERANCE_S
            and step > TOLERANCE_S
            and not self._is_taken_back(cursor + duration, following)
        ):
            yield from self._fill(error, sound.rate_hz)
            self._forget_errors()
            error = Fraction(0)
        trim = 0
        correction = self._drift(error, duration)
        if correction > 0:
            self._note("drift_filled", "the sound ran behind its clock; silence was put in", cursor)
            yield from self._fill(correction, sound.rate_hz)
        elif correction < 0:
            trim = min(int(-correction * sound.rate_hz), samples.size - 1)
            self._note(
                "drift_trimmed", "the sound ran ahead of its clock; samples left out", cursor, trim
            )
        assert self._resampler is not None
        if self._resampler.rate_hz != sound.rate_hz:
            at = self._cursor()
            assert at is not None
            yield from self._end_stretch()
            yield from self._begin(at, sound.rate_hz)
            self._note("rate_changed", "the sound's sample rate changes", at)
        yield from self._feed_real(samples[trim:])
        self._frame_end = start + duration

    def _is_taken_back(self, end: Fraction, following: Sound | None) -> bool:
        """Whether the next frame's time follows on as if there were no hole before this one.

        Vorbis in Ogg dates a block late where the block size changes, and the next one right again.
        """
        if following is None or following.start is None:
            return False
        return abs(max(following.start, Fraction(0)) + self._shift - end) <= TOLERANCE_S

    def _drift(self, error: Fraction, duration: Fraction) -> Fraction:
        """Median error of the last second of sound once it leaves the tolerance, else 0."""
        self._errors.append((int(error * 1_000_000), int(duration * 1_000_000)))
        self._errors_us += self._errors[-1][1]
        if self._errors_us < 1_000_000:
            return Fraction(0)
        middle = Fraction(int(median(value for value, _ in self._errors)), 1_000_000)
        while self._errors_us >= 1_000_000:
            self._errors_us -= self._errors.popleft()[1]
        if abs(middle) <= TOLERANCE_S:
            return Fraction(0)
        self._forget_errors()
        return middle

    def _forget_errors(self) -> None:
        self._errors.clear()
        self._errors_us = 0

    def _cursor(self) -> Fraction | None:
        """Source time of the next sample to be fed; None before the first."""
        if self._resampler is None:
            return None
        return self._anchor + Fraction(self._resampler.samples_in, self._resampler.rate_hz)

    def _begin(self, start: Fraction, rate_hz: int) -> Iterator[AudioSecond]:
        self._resampler = Resampler(rate_hz)
        self._anchor = start
        self._anchor_index = max(sample_index(start), self._seconds.reached)
        yield from ()

    def _end_stretch(self) -> Iterator[AudioSecond]:
        if self._resampler is not None:
            yield from self._write(self._resampler.finish())

    def _fill(self, length: Fraction, rate_hz: int) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        if length > PAUSE_S:
            cursor = self._cursor()
            assert cursor is not None
            yield from self._end_stretch()
            yield from self._begin(cursor + length, rate_hz)
            return
        zeros = int(length * self._resampler.rate_hz + Fraction(1, 2))
        yield from self._write(self._resampler.push(np.zeros(zeros, np.float32)))

    def _feed_real(self, samples: FLOAT) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        first = self._index(self._resampler.samples_in)
        out = self._resampler.push(samples)
        self._seconds.mark_real(first, self._index(self._resampler.samples_in))
        yield from self._write(out)

    def _index(self, samples_in: int) -> int:
        """The 16 kHz index at or after a position in the stretch: no real sample is left out."""
        assert self._resampler is not None
        return self._anchor_index - (-samples_in * SAMPLE_RATE_HZ // self._resampler.rate_hz)

    def _write(self, out: FLOAT) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        position = self._anchor_index + self._resampler.samples_out - out.size
        yield from self._seconds.write(position, out)

    def _note(self, code: str, message: str, at: Fraction, count: int = 1) -> None:
        self._remarks.note(code, message, start_ms=milliseconds(at), count=count)


class _Seconds:
    """Collects samples by their index and gives out each second once nothing can join it."""

    def __init__(self) -> None:
        self.reached = 0
        """Index after the last sample written."""
        self._second = 0
        self._samples = np.zeros(SAMPLES_PER_UNIT, np.float32)
        self._real: deque[list[int]] = deque()

    def mark_real(self, first: int, end: int) -> None:
        """Indexes from `first` to before `end` hold real samples; called in order."""
        if self._real and self._real[-1][1] >= first:
            self._real[-1][1] = max(end, self._real[-1][1])
        else:
            self._real.append([first, end])

    def write(self, position: int, samples: FLOAT) -> Iterator[AudioSecond]:
        """Put samples at their index; earlier than `reached` cannot happen within a stretch."""
        taken = 0
        while taken < samples.size:
            second, offset = divmod(position + taken, SAMPLES_PER_UNIT)
            if second != self._second:
                yield from self._give()
                self._second = second
            part = samples[taken : taken + SAMPLES_PER_UNIT - offset]
            self._samples[offset : offset + part.size] = part
            taken += part.size
        self.reached = max(self.reached, position + samples.size)

    def finish(self) -> Iterator[AudioSecond]:
        yield from self._give()

    def _give(self) -> Iterator[AudioSecond]:
        start, end = self._second * SAMPLES_PER_UNIT, (self._second + 1) * SAMPLES_PER_UNIT
        overlaps = [
            (max(first, start), min(last, end))
            for first, last in self._real
            if first < end and last > start
        ]
        while self._real and self._real[0][1] <= end:
            self._real.popleft()
        if overlaps:
            yield AudioSecond(
                second=self._second,
                samples=self._samples,
                real_samples=sum(last - first for first, last in overlaps),
                real_start=overlaps[0][0],
                real_end=overlaps[-1][1],
            )
        self._samples = np.zeros(SAMPLES_PER_UNIT, np.float32)
