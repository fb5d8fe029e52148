"""Findings, evidence and what people noted, as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipeline.brief import sentences, wording
from pipeline.brief.document import (
    EvidenceEntry,
    FindingEntry,
    FrameRef,
    HoldingRef,
    Mark,
    NoteEntry,
    Source,
)
from pipeline.brief.figures import percent
from pipeline.brief.flow import (
    Block,
    Bullets,
    Facts,
    Heading,
    Paragraph,
    Pictures,
    Run,
    Runs,
    Tone,
    joined,
    plain,
)
from pipeline.brief.links import Player
from pipeline.brief.picture_choice import stills


def finding(entry: FindingEntry, plays: Player, *, frames_shown: int) -> Iterator[Block]:
    state = Run(text=f" · {wording.STATES[entry.state]}", is_soft=True)
    title = (Run(text=f"{entry.ref} · "), *holdings(entry.holdings), state)
    yield Heading(level=3, runs=title, anchor=entry.ref)
    yield Paragraph(runs=plain(entry.observed), tone=Tone.LEAD)
    tags = sentences.tags(entry)
    if tags:
        yield Paragraph(runs=(Run(text=" · ".join(tags), is_strong=True),), tone=Tone.SOFT)
    yield _moment(entry.source, plays)
    yield from _pictures(entry.source.frames, frames_shown)
    if entry.repeats:
        yield Paragraph(runs=_repeats(entry.repeats, plays), tone=Tone.SOFT)
    yield Facts(
        rows=(
            (wording.LABELS["implication"], plain(entry.implication)),
            (wording.LABELS["uncertainty"], plain(entry.uncertainty)),
            (wording.LABELS["verification"], plain(entry.verification)),
        )
    )
    yield from _marks(entry.marks)
    yield _remembered(entry.source)
    yield from _notes(entry.notes)


def evidence(entry: EvidenceEntry, plays: Player) -> Iterator[Block]:
    cut = (Run(text=f" · {wording.CUT}", is_soft=True),) if entry.is_cut else ()
    yield Heading(level=3, runs=(Run(text=entry.ref), *cut), anchor=entry.ref)
    if entry.text:
        yield Paragraph(runs=plain(entry.text), tone=Tone.QUOTE)
    else:
        yield Paragraph(runs=plain(wording.ALL_HELD_BACK))
    yield _moment(entry.source, plays)
    yield from _marks(entry.marks)
    yield _remembered(entry.source)


def holdings(refs: Iterable[HoldingRef]) -> Runs:
    return joined(
        (
            (Run(text=ref.name), Run(text=f"\u00a0({percent(ref.weight_pct)})", is_soft=True))
            for ref in refs
        ),
        ", ",
    )


def _moment(source: Source, plays: Player) -> Paragraph:
    where = Run(text=f" · {sentences.evidence_at(source)}")
    return Paragraph(runs=(_play(source, plays), where), tone=Tone.SOFT)


def _remembered(source: Source) -> Paragraph:
    return Paragraph(runs=plain(sentences.remembered(source)), tone=Tone.SOFT)


def _play(source: Source, plays: Player) -> Run:
    link = plays.link(source)
    if link is None:
        return Run(text=f"#{plays.fragment(source)}", is_code=True)
    return Run(text=sentences.play(source), href=link, is_strong=True)


def _repeats(repeats: Iterable[Source], plays: Player) -> Runs:
    moments = (
        (Run(text=f"{source.generated_in.text} ("), _play(source, plays), Run(text=")"))
        for source in repeats
    )
    return (Run(text=f"{wording.REPEATED} "), *joined(moments, ", "))


def _pictures(frames: Sequence[FrameRef], shown: int) -> Iterator[Block]:
    pictures = stills(frames)
    if shown:
        yield Pictures(stills=pictures[:shown])
    rest = [still.text for still in pictures[shown:]]
    if rest:
        yield Paragraph(runs=plain(sentences.more_pictures(rest)), tone=Tone.SOFT)


def _marks(marks: Sequence[Mark]) -> Iterator[Block]:
    if marks:
        items = tuple(plain(sentences.mark(mark)) for mark in marks)
        yield Bullets(items=items, tone=Tone.WARNING)


def _notes(notes: Sequence[NoteEntry]) -> Iterator[Block]:
    if not notes:
        return
    yield Paragraph(runs=(Run(text=wording.NOTES, is_strong=True),), tone=Tone.LABEL)
    yield Bullets(items=tuple(map(_note, notes)))


def _note(note: NoteEntry) -> Runs:
    who = Run(text=sentences.note(note), is_soft=True)
    return (who, Run(text=": "), Run(text=note.text)) if note.text else (who,)
