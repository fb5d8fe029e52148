"""The sound of a recording as seconds of 16 kHz mono, each sample at its source time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from pipeline.clock import SAMPLE_RATE_HZ, milliseconds, sample_index
from pipeline.media.drift import FINE_TOLERANCE_S, TOLERANCE_S, Drift
from pipeline.media.hearing import Hearing
from pipeline.media.levels import levels
from pipeline.media.mixdown import FLOAT, Mixdown
from pipeline.media.polarity import Polarity
from pipeline.media.remarks import RemarkBook
from pipeline.media.resample import Resampler
from pipeline.media.seconds import AudioSecond, Seconds
from pipeline.media.sound import ROUNDING_S, Sound

BACK_JUMP_S = Fraction(1, 2)
"""A step back of this much that the packet scan did not see is continued, never overwritten."""

PAUSE_S = Fraction(2)
"""A longer hole ends the resampler's stretch, so that hours of silence cost nothing."""

HEARD_ACROSS_S = Fraction(1, 10)
"""What is heard on both sides of a shorter hole is heard throughout."""

LOOKAHEAD_S = 0.5
"""Sound that is waited for, to see whether a hole is one."""

UNSURE_S = Fraction(1)
"""How long times are not trusted after a step that was taken back."""

MISSING = "the file has no sound here; silence is in its place"
OVERLAPS = "two parts of the sound overlap by their times; one fades into the other"


class AudioPlacer:
    """Places sounds on the source clock.

    A hole is filled with counted zeros, an error that lasts a second is corrected, and every real
    sample is kept in order. Where the clock or the rate is set anew, the new part
    lies where its own time says; if that is before the old one's end, one fades into the other.
    """

    def __init__(self, remarks: RemarkBook, mixdown: Mixdown, *, is_alone: bool = False) -> None:
        """`is_alone` where there are no pictures that the sound must keep time with."""
        self._remarks = remarks
        self._is_alone = is_alone
        self._mixdown = mixdown
        self._hearing = Hearing(remarks)
        self._polarity = Polarity(remarks)
        self._weights: FLOAT | None = None
        self._seconds = Seconds()
        self._resampler: Resampler | None = None
        self._anchor = Fraction(0)
        """Source time of the stretch's first sample."""
        self._anchor_index = 0
        self._taken = 0
        """Samples of the stretch that were taken in; the resampler gets them a little later."""
        self._frame_end: Fraction | None = None
        """Where the last sound's own time says it ends."""
        self._shift = Fraction(0)
        self._drift = Drift()
        self._waiting: deque[Sound] = deque()
        """The last sounds taken in: whether a hole lies before one, the next ones tell."""
        self._waiting_s = 0.0
        self._unsure_until = Fraction(0)
        """Up to here a step at the end of the sound, which nothing can take back, is none."""

    def place(self, sound: Sound) -> Iterator[AudioSecond]:
        """Take in one sound; yields the seconds that are now complete."""
        if sound.samples.shape[1] == 0:
            return
        self._waiting.append(sound)
        self._waiting_s += sound.duration_s
        while self._waiting_s - self._waiting[0].duration_s >= LOOKAHEAD_S:
            yield from self._place_next()

    def finish(self) -> Iterator[AudioSecond]:
        """The rest of the sound."""
        while self._waiting:
            yield from self._place_next()
        yield from self._end_stretch()
        self._hearing.pause()
        yield from self._seconds.finish()

    def _place_next(self) -> Iterator[AudioSecond]:
        sound = self._waiting.popleft()
        self._waiting_s -= sound.duration_s
        yield from self._place(sound)

    def _place(self, sound: Sound) -> Iterator[AudioSecond]:
        if self._resampler is None:
            start = max(sound.start or Fraction(0), Fraction(0))
            if start > TOLERANCE_S:
                self._note("audio_missing", MISSING, Fraction(0), end=start)
            self._begin(start, sound.rate_hz)
            self._frame_end = start + _duration(sound)
            yield from self._take(sound.samples, sound.weights)
            return
        cursor = self._cursor()
        if sound.start is None:
            yield from self._follow_on(sound, cursor)
            return
        start = max(sound.start, Fraction(0)) + self._shift
        if start - cursor < -BACK_JUMP_S:
            self._note("clock_reset", "the sound's clock jumped back; it was continued", cursor)
            self._shift += cursor - start
            start = cursor
        elif self._is_alone and sound.is_new_part and start < cursor:
            # How long the part before lasts is known here, and was only guessed from its packets.
            self._shift += cursor - start
            start = cursor
        elif self._is_set_anew(start, cursor, sound):
            yield from self._set_anew(start, cursor)
        elif self._is_hole(start, cursor, sound):
            if not sound.lost_samples:
                self._note("audio_missing", MISSING, cursor, end=start)
            yield from self._fill(start + sound.settled - cursor)
            self._drift.forget()
        yield from self._follow(start, sound)

    def _follow_on(self, sound: Sound, cursor: Fraction) -> Iterator[AudioSecond]:
        """Place a sound without a time after what came before, and after what was lost."""
        yield from self._change_rate(sound.rate_hz)
        yield from self._fill(Fraction(sound.lost_samples, sound.rate_hz))
        yield from self._take(sound.samples, sound.weights)
        self._frame_end = self._cursor()

    def _follow(self, start: Fraction, sound: Sound) -> Iterator[AudioSecond]:
        """Place a sound at the cursor, or beside it by a drift that has become too large."""
        yield from self._change_rate(sound.rate_hz)
        cursor = self._cursor()
        correction = self._drift.see(start + sound.settled - cursor, _duration(sound))
        if correction > 0:
            self._note("drift_filled", "the sound ran behind its clock; silence was put in", cursor)
            yield from self._fill(correction)
        elif correction < 0:
            yield from self._set_anew(cursor + correction, cursor)
        yield from self._take(sound.samples, sound.weights)
        self._frame_end = start + _duration(sound)

    def _is_set_anew(self, start: Fraction, cursor: Fraction, sound: Sound) -> bool:
        """Whether what the file says of this sound's time is to be taken as it is."""
        assert self._resampler is not None
        if sound.is_new_part or sound.weights is not self._weights:
            return True
        if sound.rate_hz != self._resampler.rate_hz:
            return True
        return self._is_step(cursor - start, -self._step(start), sound, cursor)

    def _set_anew(self, start: Fraction, cursor: Fraction) -> Iterator[AudioSecond]:
        """Go on where the sound's own time says."""
        error = start - cursor
        if abs(error) <= ROUNDING_S:
            return
        self._drift.forget()
        if error > 0:
            self._note("audio_missing", MISSING, cursor, end=start)
            yield from self._fill(error)
            return
        self._note("audio_overlaps", OVERLAPS, start, end=cursor)
        yield from self._end_stretch()
        assert self._resampler is not None
        self._begin(start, self._resampler.rate_hz)
        self._seconds.fade_from(self._anchor_index)

    def _change_rate(self, rate_hz: int) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        if self._resampler.rate_hz == rate_hz:
            return
        cursor = self._cursor()
        yield from self._end_stretch()
        self._begin(cursor, rate_hz)
        self._note("rate_changed", "the sound's sample rate changes", cursor)

    def _is_hole(self, start: Fraction, cursor: Fraction, sound: Sound) -> bool:
        """Whether sound is missing before this one, by its time and that of the next ones."""
        error = start - cursor
        if sound.lost_samples:
            return error > ROUNDING_S
        step = self._step(start)
        if error > TOLERANCE_S and step > TOLERANCE_S:
            return not self._is_taken_back(cursor + _duration(sound))
        return self._is_step(error, step, sound, cursor)

    def _is_step(self, error: Fraction, step: Fraction, sound: Sound, cursor: Fraction) -> bool:
        """Whether the clock went on by `step` for good; `error` is where that leads."""
        if error <= FINE_TOLERANCE_S or step <= FINE_TOLERANCE_S or not sound.is_steady:
            return False
        if error <= TOLERANCE_S and (abs(error - step) > ROUNDING_S or not self._waiting):
            return False
        return not self._is_taken_back(cursor + _duration(sound))

    def _step(self, start: Fraction) -> Fraction:
        """From where the last sound's own time said it ends to the next one's start."""
        assert self._frame_end is not None
        return start - self._frame_end

    def _is_taken_back(self, end: Fraction) -> bool:
        """Whether one of the next sounds' times follows on as if there were no hole before this.

        Vorbis in Ogg dates a block late where the block size changes, and the next one right again.
        Where frames were once dated by a wrong rate each packet of them runs off and comes back.
        """
        if self._waiting_s < LOOKAHEAD_S and end < self._unsure_until:
            return True
        for following in self._waiting:
            if following.is_new_part or following.lost_samples:
                return False
            if following.start is not None:
                off = max(following.start, Fraction(0)) + self._shift - end
                if abs(off) <= FINE_TOLERANCE_S:
                    self._unsure_until = end + UNSURE_S
                    return True
            end += _duration(following)
        return False

    def _cursor(self) -> Fraction:
        """Source time of the next sample to be taken in."""
        assert self._resampler is not None
        return self._anchor + Fraction(self._taken, self._resampler.rate_hz)

    def _begin(self, start: Fraction, rate_hz: int) -> None:
        self._resampler = Resampler(rate_hz)
        self._anchor = start
        self._anchor_index = max(sample_index(start), self._seconds.floor)
        self._taken = 0

    def _end_stretch(self) -> Iterator[AudioSecond]:
        if self._resampler is not None:
            yield from self._drain()
            yield from self._write(self._resampler.finish())

    def _fill(self, length: Fraction) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        if length >= HEARD_ACROSS_S:
            self._hearing.pause()
        if length > PAUSE_S:
            cursor = self._cursor()
            yield from self._end_stretch()
            self._begin(cursor + length, self._resampler.rate_hz)
            return
        zeros = int(length * self._resampler.rate_hz + Fraction(1, 2))
        if zeros:
            yield from self._drain()
            self._taken += zeros
            yield from self._write(self._resampler.push(np.zeros(zeros, np.float32)))

    def _take(self, channels: FLOAT, weights: FLOAT) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        if weights is not self._weights:
            yield from self._drain()
            self._hearing.pause()
            self._weights = weights
        at = self._cursor()
        rate_hz = self._resampler.rate_hz
        first = self._index(self._taken)
        self._taken += channels.shape[1]
        self._seconds.mark_real(first, self._index(self._taken))
        self._hearing.hear(channels, at, rate_hz)
        if channels.shape[0] != 2:
            yield from self._feed(channels)
            return
        both = levels(channels, rate_hz)
        self._hearing.hear_sides(both, at, rate_hz)
        for decided in self._polarity.push(channels, both, at, rate_hz):
            yield from self._feed(decided)

    def _drain(self) -> Iterator[AudioSecond]:
        """Have what waits for its polarity resampled before anything else is."""
        for decided in self._polarity.finish():
            yield from self._feed(decided)

    def _feed(self, channels: FLOAT) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        assert self._weights is not None
        mono = self._mixdown.mono(channels, self._weights)
        yield from self._write(self._resampler.push(mono))

    def _index(self, samples_in: int) -> int:
        """The 16 kHz index at or after a position in the stretch: no real sample is left out."""
        assert self._resampler is not None
        return self._anchor_index - (-samples_in * SAMPLE_RATE_HZ // self._resampler.rate_hz)

    def _write(self, out: FLOAT) -> Iterator[AudioSecond]:
        assert self._resampler is not None
        position = self._anchor_index + self._resampler.samples_out - out.size
        yield from self._seconds.write(position, out)

    def _note(
        self,
        code: str,
        message: str,
        at: Fraction,
        count: int = 1,
        *,
        end: Fraction | None = None,
    ) -> None:
        end_ms = None if end is None else milliseconds(end)
        self._remarks.note(code, message, start_ms=milliseconds(at), end_ms=end_ms, count=count)


def _duration(sound: Sound) -> Fraction:
    return Fraction(sound.samples.shape[1], sound.rate_hz)
