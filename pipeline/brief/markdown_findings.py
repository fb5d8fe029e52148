"""Findings, evidence and what people noted, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipeline.brief import sentences, wording
from pipeline.brief.document import EvidenceEntry, FindingEntry, HoldingRef, Mark, NoteEntry, Source
from pipeline.brief.figures import percent
from pipeline.brief.links import Player, safe_href
from pipeline.brief.markdown_blocks import bullets, paragraphs, quote, text
from pipeline.brief.markdown_text import inline
from pipeline.brief.picture_choice import stills

FrameHref = Callable[[str], str]


def holdings(refs: Iterable[HoldingRef]) -> str:
    return ", ".join(f"{inline(ref.name)} ({percent(ref.weight_pct)})" for ref in refs)


def finding(entry: FindingEntry, plays: Player, frame_href: FrameHref | None) -> str:
    tags = "".join(f" ({tag.lower()})" for tag in sentences.tags(entry))
    fields = ("implication", "uncertainty", "verification")
    return paragraphs(
        [
            f"### {entry.ref} · {holdings(entry.holdings)} · {wording.STATES[entry.state]}",
            f"**{wording.LABELS['observed']}{tags}:** {text(entry.observed)}",
            _moment(entry.source, plays),
            _frames(entry.source, frame_href),
            _repeats(entry.repeats, plays),
            *(f"**{wording.LABELS[name]}:** {text(getattr(entry, name))}" for name in fields),
            _marks(entry.marks),
            sentences.remembered(entry.source),
            _notes(entry.notes),
        ]
    )


def evidence(entry: EvidenceEntry, plays: Player) -> str:
    cut = f" · {wording.CUT}" if entry.is_cut else ""
    return paragraphs(
        [
            f"### {entry.ref}{cut}",
            quote(entry.text) if entry.text else wording.ALL_HELD_BACK,
            _moment(entry.source, plays),
            _marks(entry.marks),
            sentences.remembered(entry.source),
        ]
    )


def _moment(source: Source, plays: Player) -> str:
    return f"{_play(source, plays)} · {sentences.evidence_at(source)}"


def _play(source: Source, plays: Player) -> str:
    link = plays.link(source)
    return f"[{sentences.play(source)}]({link})" if link else f"`#{plays.fragment(source)}`"


def _repeats(repeats: Sequence[Source], plays: Player) -> str:
    if not repeats:
        return ""
    moments = (f"{source.generated_in.text} ({_play(source, plays)})" for source in repeats)
    return f"{wording.REPEATED} {', '.join(moments)}"


def _frames(source: Source, frame_href: FrameHref | None) -> str:
    return "\n".join(
        f"![{sentences.frame_alt(still.text)}]({safe_href(frame_href(still.sha256))})"
        if frame_href
        else f"{sentences.frame_alt(still.text)} (`{inline(still.sha256)}`)"
        for still in stills(source.frames)
    )


def _marks(marks: Iterable[Mark]) -> str:
    return bullets(inline(sentences.mark(mark)) for mark in marks)


def _notes(notes: Sequence[NoteEntry]) -> str:
    if not notes:
        return ""
    rows = (": ".join(filter(None, (inline(sentences.note(n)), inline(n.text)))) for n in notes)
    return f"**{wording.NOTES}**\n\n{bullets(rows)}"
