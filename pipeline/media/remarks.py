"""What a reader should know about the source, counted and bounded."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.records import Remark

RANGES_PER_CODE = 32
"""Time ranges listed for one kind of remark; further ones are counted in the last."""

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
    ) -> None:
        """Count one more `code`, joined with the last range of that kind where it adjoins it."""
        end_ms = start_ms if end_ms is None else end_ms
        ranges = self._ranges.setdefault(code, [])
        if ranges and (len(ranges) >= RANGES_PER_CODE or _adjoins(ranges[-1], start_ms)):
            last = ranges[-1]
            last.count += count
            if end_ms is not None:
                last.end_ms = max(end_ms, last.end_ms if last.end_ms is not None else end_ms)
            return
        ranges.append(_Range(message, count, start_ms, end_ms))

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


def _adjoins(last: _Range, start_ms: int | None) -> bool:
    if start_ms is None or last.end_ms is None:
        return start_ms is None and last.end_ms is None
    return start_ms - last.end_ms <= JOIN_MS
