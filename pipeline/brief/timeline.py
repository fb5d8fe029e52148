"""The whole recording at a glance: who spoke when, what is missing, where the findings are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipeline.brief import wording
from pipeline.brief.coverage import Division
from pipeline.brief.document import (
    FindingEntry,
    Moment,
    Span,
    Timeline,
    TimelineBand,
    TimelineEpoch,
    TimelineMark,
)
from pipeline.brief.spans import Pair, merge, spans_of
from pipeline.records import Decision, FedUnit

SPANS_MAX = 1000
"""Stretches in one band: finer than any screen or sheet of paper can show."""

_OF_UNITS: dict[str, Callable[[FedUnit], bool]] = {
    "speaking": lambda unit: unit.decision is Decision.SPEAK,
    "listening": lambda unit: unit.decision is Decision.LISTEN,
    "silence": lambda unit: unit.real_samples == 0 or unit.rms_dbfs is None,
    "no_picture": lambda unit: unit.frame_ms is None and unit.held_frame_ms is None,
}


def draw(
    units: Sequence[FedUnit], division: Division, findings: Iterable[FindingEntry]
) -> Timeline:
    """`units` hold one for each completed second."""
    pairs = {
        code: merge((unit.start_ms, unit.end_ms) for unit in units if applies(unit))
        for code, applies in _OF_UNITS.items()
    }
    pairs |= {
        "gap": division.gaps,
        "skipped": division.skipped,
        "not_reached": division.not_reached,
    }
    return Timeline(
        end=Moment(ms=division.extent_ms) if division.extent_ms else None,
        bands=tuple(_band(code, pairs[code]) for code in wording.TIMELINE_BANDS),
        epochs=_epochs(units),
        marks=_marks(findings),
    )


def _band(code: str, pairs: Sequence[Pair]) -> TimelineBand:
    spans, joined = bounded(pairs)
    return TimelineBand(code=code, label=wording.TIMELINE_BANDS[code], spans=spans, joined=joined)


def bounded(pairs: Sequence[Pair]) -> tuple[tuple[Span, ...], int]:
    """At most SPANS_MAX stretches: the shortest breaks between sorted ones are left out."""
    surplus = max(len(pairs) - SPANS_MAX, 0)
    breaks = sorted(range(1, len(pairs)), key=lambda at: (pairs[at][0] - pairs[at - 1][1], at))
    left_out = set(breaks[:surplus])
    joined: list[Pair] = []
    for at, (start, end) in enumerate(pairs):
        if at in left_out:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return spans_of(joined), surplus


def _epochs(units: Iterable[FedUnit]) -> tuple[TimelineEpoch, ...]:
    owned: dict[int, list[Pair]] = {}
    for unit in units:
        owned.setdefault(unit.epoch, []).append((unit.start_ms, unit.end_ms))
    drawn = {number: bounded(merge(owned[number])) for number in sorted(owned)}
    return tuple(
        TimelineEpoch(number=number, spans=spans, joined=joined)
        for number, (spans, joined) in drawn.items()
    )


def _marks(findings: Iterable[FindingEntry]) -> tuple[TimelineMark, ...]:
    marks = [
        TimelineMark(
            ref=finding.ref,
            at=Moment(ms=source.generated_in.start_ms),
            end=Moment(ms=source.generated_in.end_ms),
        )
        for finding in findings
        for source in (finding.source, *finding.repeats)
    ]
    return tuple(sorted(marks, key=lambda mark: (mark.at.ms, mark.end.ms)))
