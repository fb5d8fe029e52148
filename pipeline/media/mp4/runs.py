"""A table that says the same of many samples in a row, read from the file as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.media.mp4.numbers import INTEGERS, Numbers

ENTRIES_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Where in such a table a sample stands."""

    entry: int = 0
    used: int = 0
    """Samples of that entry that lie before it."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a whole table amounts to."""

    samples: int
    sum: int
    least: int
    most: int
    has_empty: bool
    """Whether an entry is of no sample."""


class Runs:
    """Times to decode or to present (ISO/IEC 14496-12, 8.6.1): a count and a value a row."""

    def __init__(self, table: Numbers, *, is_signed: bool = False) -> None:
        self._table = table
        self._is_signed = is_signed
        self.entries = table.rows

    def totals(self) -> Totals:
        samples = total = most = 0
        least = 1 << 32
        has_empty = False
        for first in range(0, self.entries, ENTRIES_AT_ONCE):
            counts, values = self._read(first, ENTRIES_AT_ONCE)
            samples += int(counts.sum())
            total += sum(map(int.__mul__, counts.tolist(), values.tolist()))
            least = min(least, int(values.min()))
            most = max(most, int(values.max()))
            has_empty |= bool((counts == 0).any())
        return Totals(samples=samples, sum=total, least=least, most=most, has_empty=has_empty)

    def take(self, start: Cursor, samples: int) -> tuple[INTEGERS, INTEGERS, Cursor]:
        """Counts and values of the next `samples`, and where the one after them stands.

        No entry may be of no sample.
        """
        counts, values = self._read(start.entry, samples)
        if not len(counts):
            return counts, values, start
        counts[0] -= start.used
        reached = counts.cumsum()
        last = int(np.searchsorted(reached, samples))
        if last >= len(counts):
            return counts, values, Cursor(entry=start.entry + len(counts))
        over = int(reached[last]) - samples
        kept = int(counts[last]) - over
        counts, values = counts[: last + 1], values[: last + 1]
        counts[last] = kept
        used = kept + (start.used if last == 0 else 0)
        if over == 0:
            return counts, values, Cursor(entry=start.entry + last + 1)
        return counts, values, Cursor(entry=start.entry + last, used=used)

    def _read(self, first: int, entries: int) -> tuple[INTEGERS, INTEGERS]:
        pairs = self._table.read(first, min(entries, self.entries - first))
        counts, values = pairs[:, 0].copy(), pairs[:, 1].copy()
        if self._is_signed:
            values[values >= 1 << 31] -= 1 << 32
        return counts, values
