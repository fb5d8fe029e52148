"""How far sound lies from where its time stamps say, and when that is too far."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from statistics import median

from pipeline.media.sound import ROUNDING_S

TOLERANCE_S = Fraction(1, 100)
"""Live captures' time stamps stray by less; the shortest lost packet worth noticing (AAC 21 ms, MP3
26 ms) is longer."""

FINE_TOLERANCE_S = Fraction(2, 1000)
"""Where time stamps keep to ROUNDING_S less is believed, too: the shortest packet of Opus is
2.5 ms."""

WINDOW_US = 1_000_000
"""Sound all of which has to be off before it is moved."""


class Drift:
    """Keeps the errors of about the last second of sound."""

    def __init__(self) -> None:
        self._errors: deque[tuple[int, int]] = deque()
        """Error and length of each sound, in µs."""
        self._length_us = 0

    def see(self, error: Fraction, duration: Fraction) -> Fraction:
        """Take in a sound's error in seconds; returns the correction that is due, else 0.

        An error that comes and goes is one of the time stamps, and one that stays as it is is
        believed when it is small, too.
        """
        self._errors.append((int(error * 1_000_000), int(duration * 1_000_000)))
        self._length_us += self._errors[-1][1]
        if self._length_us < WINDOW_US:
            return Fraction(0)
        errors = [error for error, _ in self._errors]
        while self._length_us >= WINDOW_US:
            self._length_us -= self._errors.popleft()[1]
        least, most = min(errors), max(errors)
        rounding, fine, coarse = (
            int(limit * 1_000_000) for limit in (ROUNDING_S, FINE_TOLERANCE_S, TOLERANCE_S)
        )
        if least <= fine and most >= -fine:
            return Fraction(0)
        middle = int(median(errors))
        if abs(middle) <= (fine if most - least <= rounding else coarse):
            return Fraction(0)
        self.forget()
        return Fraction(middle, 1_000_000)

    def forget(self) -> None:
        """What was seen says nothing of what follows."""
        self._errors.clear()
        self._length_us = 0
