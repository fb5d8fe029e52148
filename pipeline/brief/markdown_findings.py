"""Findings, evidence and what people noted, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipeline.brief import wording
from pipeline.brief.document import EvidenceEntry, FindingEntry, HoldingRef, Mark, NoteEntry, Source
from pipeline.brief.figures import percent
from pipeline.brief.links import Player, safe_href
from pipeline.brief.markdown_blocks import bullets, paragraphs, quote, text
from pipeline.brief.markdown_text import inline

FrameHref = Callable[[str], str]


def holdings(refs: Iterable[HoldingRef]) -> str:
    return ", ".join(f"{inline(ref.name)} ({percent(ref.weight_pct)})" for ref in refs)


def finding(entry: FindingEntry, plays: Player, frame_href: FrameHref | None) -> str:
    tags = "".join(f" ({tag.lower()})" for tag in wording.tags(entry))
    fields = (
        (wording.LABELS["observed"] + tags, entry.observed),
        (wording.LABELS["implication"], entry.implication),
        (wording.LABELS["uncertainty"], entry.uncertainty),
        (wording.LABELS["verification"], entry.verification),
    )
    return paragraphs(
        [
            f"### {entry.ref} · {holdings(entry.holdings)} · {wording.STATES[entry.state]}",
            *(f"**{label}:** {text(value)}" for label, value in fields),
            _source(entry.source, plays),
            _repeats(entry.repeats, plays),
            _frames(entry.source, frame_href),
            _marks(entry.marks),
            _notes(entry.notes),
        ]
    )


def evidence(entry: EvidenceEntry, plays: Player) -> str:
    cut = f" · {wording.CUT}" if entry.is_cut else ""
    return paragraphs(
        [
            f"### {entry.ref}{cut}",
            quote(entry.text) if entry.text else wording.ALL_HELD_BACK,
            _source(entry.source, plays),
            _marks(entry.marks),
        ]
    )


def _source(source: Source, plays: Player) -> str:
    return (
        f"Evidence {source.interval.text} · {_play(source, plays)} · {wording.remembered(source)}"
    )


def _play(source: Source, plays: Player) -> str:
    link = plays.link(source)
    return f"[Play {source.play.text}]({link})" if link else f"`#{plays.fragment(source)}`"


def _repeats(repeats: Sequence[Source], plays: Player) -> str:
    if not repeats:
        return ""
    moments = (f"{source.generated_in.text} ({_play(source, plays)})" for source in repeats)
    return f"{wording.REPEATED} {', '.join(moments)}"


def _frames(source: Source, frame_href: FrameHref | None) -> str:
    return "\n".join(
        f"![{wording.frame_alt(frame.at.text)}]({safe_href(frame_href(frame.sha256))})"
        if frame_href
        else f"{wording.frame_alt(frame.at.text)} (`{inline(frame.sha256)}`)"
        for frame in source.frames
    )


def _marks(marks: Iterable[Mark]) -> str:
    return bullets(inline(wording.mark(mark)) for mark in marks)


def _notes(notes: Sequence[NoteEntry]) -> str:
    if not notes:
        return ""
    rows = (": ".join(filter(None, (inline(wording.note(n)), inline(n.text)))) for n in notes)
    return f"**{wording.NOTES}**\n\n{bullets(rows)}"
