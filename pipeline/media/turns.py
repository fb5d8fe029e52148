"""How often the clock of a file went round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.media.scanned import StreamScan

TURNS_MAX = 10_000
"""Turns kept for one stream; a file with more has no clock worth following."""


@dataclass(frozen=True, kw_only=True)
class Period:
    """After so many ticks a clock begins anew."""

    ticks: int
    per_s: int

    @property
    def us(self) -> int:
        return self.ticks * 1_000_000 // self.per_s


MPEG = Period(ticks=1 << 33, per_s=90_000)
"""26.5 hours (ISO/IEC 13818-1, 2.4.3.7)."""

MILLISECONDS = Period(ticks=1 << 31, per_s=1000)
"""Of 32 bits, which some writers take for a number with a sign: 24.9 days, as long as a live
server may have been up."""

PERIODS: Mapping[str, Period] = {
    "mpegts": MPEG,
    "mpeg": MPEG,
    "flv": MILLISECONDS,
}
"""Formats with such a clock. FFmpeg follows it through one turn of all its bits, if the first
packet that it meets is one of the earliest; for ASF, which has 32 bits, that does."""


class Turns:
    """Tells the turns of a file's clock apart, by the packets before."""

    def __init__(self, period: Period | None) -> None:
        self._period = period
        self._first: int | None = None
        self._reached: int | None = None

    def unwrapped(self, found: StreamScan, ordinal: int, time: int) -> int:
        """The time on the clock of the packet before, noted for when the packet is decoded."""
        period = self._period
        if period is None:
            return time
        if self._reached is None:
            self._first = self._reached = time
        turn = _between(time, self._reached, period)
        known = found.turns[-1][1] // period.ticks if found.turns else 0
        if turn != known:
            if len(found.turns) >= TURNS_MAX:
                turn = known
            else:
                found.turns.append((ordinal, turn * period.ticks))
        self._reached = time + turn * period.us
        return self._reached

    def start(self, time: int | None) -> int | None:
        """The container's own start on the clock of its first packet."""
        if time is None or self._first is None or self._period is None:
            return time
        return time + _between(time, self._first, self._period) * self._period.us


def _between(time_us: int, reached_us: int, period: Period) -> int:
    """Turns to add to a time so that it lies within half a one of the other."""
    return (reached_us - time_us + period.us // 2) // period.us
