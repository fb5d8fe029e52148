"""What is heard of the sound: where it is digital silence, and where it is on one side only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pipeline.clock import milliseconds
from pipeline.media.levels import Level
from pipeline.media.mixdown import FLOAT
from pipeline.media.remarks import RemarkBook

ZERO = 2.0**-24
"""Half the smallest step of 24-bit samples: what is below is zero in any recording. A microphone's
noise is 40 dB above it and more, so that a quiet room is never taken for silence."""

SILENCE_S = Fraction(1)
"""Shorter digital silence is a pause between words that an encoder cleaned."""

SIDE_S = Fraction(2)
"""One-sided for less is a voice that is panned, or an effect."""

SIDE_SHARE = 1e-4
"""Power of the quieter channel over the louder one's (-40 dB) below which it carries nothing."""

SIDE_AUDIBLE = 1e-5
"""Mean square (-50 dBFS) of the louder channel below which neither carries anything."""

SILENT = "every decoded sample is zero"
SIDES = (
    "only the left of two channels carries sound; mono has it at half its level",
    "only the right of two channels carries sound; mono has it at half its level",
)


@dataclass
class _Stretch:
    """From where on something holds, and up to where it is known to."""

    start: Fraction
    end: Fraction


class Hearing:
    """Measures decoded sound as it is placed; holds one open stretch of each kind."""

    def __init__(self, remarks: RemarkBook) -> None:
        self._remarks = remarks
        self._silence: _Stretch | None = None
        self._sided: _Stretch | None = None
        self._side = 0

    def hear(self, channels: FLOAT, start: Fraction, rate_hz: int) -> None:
        """Take in decoded samples, shape (channels, samples), from this source time on."""
        for at in range(0, channels.shape[1], rate_hz):
            part_start = start + Fraction(at, rate_hz) if at else start
            self._hear_silence(channels[:, at : at + rate_hz], part_start, rate_hz)

    def hear_sides(self, levels: Sequence[Level], start: Fraction, rate_hz: int) -> None:
        """Take in what two channels' levels are from this source time on."""
        at = 0
        for level in levels:
            first, at = at, at + level.size
            louder, quieter = max(level.left, level.right), min(level.left, level.right)
            if not louder > SIDE_AUDIBLE:
                continue
            if not quieter < SIDE_SHARE * louder:
                self._end_side()
                continue
            end = start + Fraction(at, rate_hz)
            side = int(level.right > level.left)
            if self._sided is not None and side == self._side:
                self._sided.end = end
                continue
            self._end_side()
            self._side, self._sided = side, _Stretch(start + Fraction(first, rate_hz), end)

    def pause(self) -> None:
        """Nothing decoded follows on: what holds ends here."""
        self._end_silence()
        self._end_side()

    def _hear_silence(self, channels: FLOAT, start: Fraction, rate_hz: int) -> None:
        size = channels.shape[1]
        first, last = _loud_ends(channels)
        if self._silence is not None:
            self._silence.end = start + Fraction(first, rate_hz)
        elif first > 0:
            self._silence = _Stretch(start, start + Fraction(first, rate_hz))
        if first == size:
            return
        self._end_silence()
        if last + 1 < size:
            end = start + Fraction(size, rate_hz)
            self._silence = _Stretch(start + Fraction(last + 1, rate_hz), end)

    def _end_silence(self) -> None:
        found, self._silence = self._silence, None
        if found is not None and found.end - found.start >= SILENCE_S:
            self._note("audio_silent", SILENT, found)

    def _end_side(self) -> None:
        found, self._sided = self._sided, None
        if found is not None and found.end - found.start >= SIDE_S:
            self._note("audio_one_sided", SIDES[self._side], found)

    def _note(self, code: str, message: str, found: _Stretch) -> None:
        self._remarks.note(
            code,
            message,
            start_ms=milliseconds(found.start),
            end_ms=milliseconds(found.end),
            join_ms=0,
        )


def _loud_ends(channels: FLOAT) -> tuple[int, int]:
    """First and last sample that is not zero in every channel; the size and -1 where none is."""
    size = channels.shape[1]
    # Most sound is loud at both ends: then the rest need not be looked at.
    ends = (channels[:, 0].tolist(), channels[:, -1].tolist())
    if all(max(map(abs, end)) > ZERO for end in ends):
        return 0, size - 1
    is_loud = np.abs(channels).max(axis=0) > ZERO
    first = int(is_loud.argmax())
    if not is_loud[first]:
        return size, -1
    return first, size - 1 - int(is_loud[::-1].argmax())
