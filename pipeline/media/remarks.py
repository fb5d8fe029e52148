"""What a reader should know about the source, counted and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pipeline.records import Remark

RANGES_PER_CODE = 32
"""Time ranges listed for one kind of remark; beyond them the two that lie closest become one."""

JOIN_MS = 1000
"""Two remarks of one kind this close together are one range."""


@dataclass
class _Range:
    message: str
    count: int
    start_ms: int | None
    end_ms: int | None


class RemarkBook:
    """Collects remarks; many of one kind cost no memory."""

    def __init__(self) -> None:
        self._ranges: dict[str, list[_Range]] = {}

    def note(
        self,
        code: str,
        message: str,
        *,
        count: int = 1,
        start_ms: int | None = None,
        end_ms: int | None = None,
        join_ms: int = JOIN_MS,
    ) -> None:
        """Count one more `code`, joined with the last range of that kind where it adjoins it."""
        end_ms = start_ms if end_ms is None else end_ms
        ranges = self._ranges.setdefault(code, [])
        found = _Range(message, count, start_ms, end_ms)
        if ranges and _adjoins(ranges[-1], found, join_ms):
            _join(ranges[-1], found)
            return
        ranges.append(found)
        if len(ranges) > RANGES_PER_CODE:
            _join_closest(ranges)

    def take_over(self, other: RemarkBook) -> None:
        """Add what another pass noted, its ranges as they are."""
        for code, ranges in other._ranges.items():
            for found in ranges:
                self.note(
                    code,
                    found.message,
                    count=found.count,
                    start_ms=found.start_ms,
                    end_ms=found.end_ms,
                    join_ms=0,
                )

    def leave_out(self, code: str, spans_ms: Iterable[tuple[int, int]]) -> None:
        """Tell nothing of `code` in these stretches; a range that one divides becomes two."""
        if code not in self._ranges:
            return
        ranges = self._ranges[code]
        for start_ms, end_ms in spans_ms:
            ranges = [part for found in ranges for part in _without(found, start_ms, end_ms)]
        while len(ranges) > RANGES_PER_CODE:
            _join_closest(ranges)
        self._ranges[code] = ranges

    def remarks(self) -> tuple[Remark, ...]:
        """All remarks, in order of kind first noted, then time."""
        return tuple(
            Remark(
                code=code,
                message=found.message,
                count=found.count,
                start_ms=found.start_ms,
                end_ms=found.end_ms,
            )
            for code, ranges in self._ranges.items()
            for found in ranges
        )


def _adjoins(last: _Range, found: _Range, join_ms: int) -> bool:
    if found.start_ms is None or last.end_ms is None:
        return found.start_ms is None and last.end_ms is None
    return last.message == found.message and found.start_ms - last.end_ms <= join_ms


def _without(found: _Range, start_ms: int, end_ms: int) -> Iterator[_Range]:
    if found.start_ms is None or found.end_ms is None:
        yield found
        return
    if found.end_ms <= start_ms or found.start_ms >= end_ms:
        yield found
        return
    count = found.count
    if found.start_ms < start_ms:
        yield replace(found, end_ms=start_ms)
        count = 1  # of several that were joined, it is not known where they were
    if found.end_ms > end_ms:
        yield replace(found, start_ms=end_ms, count=count)


def _join(last: _Range, found: _Range) -> None:
    last.count += found.count
    if found.end_ms is not None:
        last.start_ms = found.start_ms if last.start_ms is None else last.start_ms
        last.end_ms = max(found.end_ms, last.end_ms if last.end_ms is not None else found.end_ms)


def _join_closest(ranges: list[_Range]) -> None:
    def gap(at: int) -> int:
        end_ms, start_ms = ranges[at].end_ms, ranges[at + 1].start_ms
        return 0 if end_ms is None or start_ms is None else start_ms - end_ms

    closest = min(range(len(ranges) - 1), key=gap)
    _join(ranges[closest], ranges.pop(closest + 1))
