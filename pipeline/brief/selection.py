"""Which findings and evidence the brief lists, in which order, and what is said of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pipeline.brief import sentences, wording
from pipeline.brief.changes import Judge
from pipeline.brief.collapse import collapse
from pipeline.brief.document import (
    EvidenceEntry,
    FindingEntry,
    FrameRef,
    HoldingRef,
    Mark,
    Moment,
    Source,
    Span,
)
from pipeline.brief.links import media_fragment, play_interval
from pipeline.brief.notes import NoteBook, key_of
from pipeline.brief.seams import Ownership
from pipeline.records import (
    Dossier,
    Evidence,
    EvidenceKind,
    Finding,
    Holding,
    Interval,
    NoteState,
    TextMark,
)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is listed, and how much belongs to seconds that a newer epoch completed again."""

    findings: tuple[FindingEntry, ...]
    evidence: tuple[EvidenceEntry, ...]
    findings_superseded: int
    evidence_superseded: int
    notes_superseded: int


def select(dossier: Dossier, ownership: Ownership, likeness: Judge) -> Selection:
    refs = holding_refs(dossier.holdings)
    book = NoteBook(dossier.notes)
    current = [f for f in dossier.findings if ownership.is_current(f.epoch, f.origin)]
    superseded = [f for f in dossier.findings if not ownership.is_current(f.epoch, f.origin)]
    evidence = [e for e in dossier.evidence if ownership.is_current(e.epoch, e.origin)]
    occurrences = collapse(sorted(current, key=_place), likeness)
    occurrences.sort(key=lambda same: (-_weight(same[0], refs), *_place(same[0])))
    evidence.sort(key=_place)
    return Selection(
        findings=tuple(
            _finding(same, f"F{number}", refs, book)
            for number, same in enumerate(occurrences, start=1)
        ),
        evidence=tuple(
            EvidenceEntry(
                ref=f"E{number}",
                is_cut=item.kind is EvidenceKind.CUT,
                text=item.text,
                marks=text_marks(item.marks),
                source=_source(item),
            )
            for number, item in enumerate(evidence, start=1)
        ),
        findings_superseded=len(superseded),
        evidence_superseded=len(dossier.evidence) - len(evidence),
        notes_superseded=book.count(superseded),
    )


def holding_refs(holdings: tuple[Holding, ...]) -> dict[str, HoldingRef]:
    """By id, largest absolute weight first; the portfolio's order decides between equals."""
    return {
        holding.id: HoldingRef(
            id=holding.id,
            name=holding.name,
            ticker=holding.ticker,
            exchange=holding.exchange,
            weight_pct=holding.weight_pct,
        )
        for holding in sorted(holdings, key=lambda holding: -abs(holding.weight_pct))
    }


def _weight(finding: Finding, refs: Mapping[str, HoldingRef]) -> Decimal:
    return max(abs(refs[id].weight_pct) for id in finding.holding_ids)


def _place(item: Finding | Evidence) -> tuple[int, int, int, int, int]:
    said = item.origin.generated_in
    return said.start_ms, said.end_ms, item.epoch, item.turn, item.block


def _finding(
    occurrences: Sequence[Finding], ref: str, refs: Mapping[str, HoldingRef], book: NoteBook
) -> FindingEntry:
    finding, *again = occurrences
    notes = book.of(occurrences)
    return FindingEntry(
        ref=ref,
        key=key_of(finding),
        holdings=tuple(refs[id] for id in refs if id in finding.holding_ids),
        is_audio_evidence=finding.is_audio_evidence,
        observed=finding.evidence,
        implication=finding.implication,
        uncertainty=finding.uncertainty,
        verification=finding.verification,
        text=finding.text,
        marks=(*_marks(finding), *text_marks(finding.marks)),
        source=_source(finding),
        repeats=tuple(_source(repeat) for repeat in again),
        state=NoteState.after(note.action for note in notes),
        notes=notes,
    )


def _marks(finding: Finding) -> tuple[Mark, ...]:
    given = (
        ("unclosed", not finding.is_closed, ()),
        ("unmatched", bool(finding.unmatched), finding.unmatched),
        ("ambiguous", bool(finding.ambiguous), finding.ambiguous),
    )
    return tuple(
        Mark(code=code, text=wording.MARKS[code], names=names, count=None)
        for code, applies, names in given
        if applies
    )


def text_marks(marks: Iterable[TextMark]) -> tuple[Mark, ...]:
    return tuple(
        Mark(code=mark.code, text=sentences.text_mark(mark.code), names=(), count=mark.count)
        for mark in marks
    )


def _source(item: Finding | Evidence) -> Source:
    origin = item.origin
    start_ms, end_ms = play_interval(origin)
    return Source(
        epoch=item.epoch,
        turn=item.turn,
        block=item.block,
        interval=_span(origin.interval),
        generated_in=_span(origin.generated_in),
        available_from=Moment(ms=origin.available_from_ms),
        play=Span(start_ms=start_ms, end_ms=end_ms),
        fragment=media_fragment(start_ms, end_ms),
        frames=tuple(
            FrameRef(
                sha256=frame.sha256,
                at=Moment(ms=frame.source_ms),
                width_px=frame.width_px,
                height_px=frame.height_px,
            )
            for frame in origin.frames
        ),
    )


def _span(interval: Interval) -> Span:
    return Span(start_ms=interval.start_ms, end_ms=interval.end_ms)
