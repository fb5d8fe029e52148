"""Numbers and times as text, exactly: no float takes part."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal

from pipeline.clock import clock_text
from pipeline.decimals import decimal_text


def percent(value: Decimal) -> str:
    """`12.5 %`, a true minus sign for a short."""
    return f"{decimal_text(value).replace('-', '−')}\u00a0%"


def share_text(share_pct: Decimal | None) -> str:
    """A computed share, always with its tenth, so that columns line up."""
    return "unknown" if share_pct is None else f"{share_pct:f}\u00a0%"


def share(part_ms: int, whole_ms: int) -> Decimal | None:
    """Percent to one tenth; only all is 100.0 and only nothing is 0.0. None of an empty whole."""
    if whole_ms <= 0:
        return None
    tenths = (2000 * part_ms + whole_ms) // (2 * whole_ms)
    if 0 < part_ms < whole_ms:
        tenths = min(max(tenths, 1), 999)
    return Decimal(f"{tenths // 10}.{tenths % 10}")


def seconds(ms: int) -> str:
    """Milliseconds as seconds with as many decimals as they have, `754.5`."""
    return decimal_text(Decimal(ms).scaleb(-3))


def clock(ms: int) -> str:
    """`1:02:03` or `2:03`, with the fraction where there is one: `2:03.45`."""
    fraction = f"{ms % 1000:03d}".rstrip("0")
    return clock_text(ms) + (f".{fraction}" if fraction else "")


def span_text(start_ms: int, end_ms: int) -> str:
    return f"{clock(start_ms)}–{clock(end_ms)}"


def utc(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, whatever zone the row came with."""
    if moment.tzinfo is None:
        raise ValueError("a stored time has no zone; the ledger gives aware times")
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def utc_text(stored: str) -> str:
    """What `utc` wrote, as people read it and to the second: `2026-03-05 01:00:13 UTC`."""
    return f"{stored[:10]} {stored[11:19]} UTC"


def wall_ms(start: datetime, end: datetime) -> int:
    return (end - start) // timedelta(milliseconds=1)


def count(number: int, one: str, many: str) -> str:
    """`1 holding`, `12,000 holdings`."""
    return f"{number:,} {one if number == 1 else many}"
