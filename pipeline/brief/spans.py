"""Arithmetic on stretches of source time, in whole milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.brief.document import Span, Spans

SPANS_LISTED_MAX = 20
"""Longer lists are not read; what is left out is counted."""

Pair = tuple[int, int]


def merge(pairs: Iterable[Pair]) -> list[Pair]:
    """Sorted, disjoint, without empty stretches; those that touch become one."""
    merged: list[Pair] = []
    for start, end in sorted(pairs):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def subtract(pairs: Iterable[Pair], holes: Iterable[Pair]) -> list[Pair]:
    """What of `pairs` no hole covers, merged."""
    rest: list[Pair] = []
    cuts = merge(holes)
    position = 0
    for start, end in merge(pairs):
        while position < len(cuts) and cuts[position][1] <= start:
            position += 1
        at = position
        while start < end:
            if at == len(cuts) or cuts[at][0] >= end:
                rest.append((start, end))
                break
            if cuts[at][0] > start:
                rest.append((start, cuts[at][0]))
            start = cuts[at][1]
            at += 1
    return rest


def clip(pairs: Iterable[Pair], end_ms: int) -> list[Pair]:
    """What lies within [0, end_ms), merged."""
    return merge((max(start, 0), min(end, end_ms)) for start, end in pairs)


def total_ms(pairs: Iterable[Pair]) -> int:
    return sum(end - start for start, end in pairs)


def spans_of(pairs: Iterable[Pair]) -> tuple[Span, ...]:
    return tuple(Span(start_ms=start, end_ms=end) for start, end in pairs)


def listing(spans: Sequence[Span]) -> Spans:
    """A bounded list for a reader."""
    return Spans(
        listed=tuple(spans[:SPANS_LISTED_MAX]), omitted=max(len(spans) - SPANS_LISTED_MAX, 0)
    )
