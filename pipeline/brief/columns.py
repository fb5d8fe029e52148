"""The findings as rows of a table, for formats that are read by a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from pipeline.brief import facts, sentences, wording
from pipeline.brief.document import Brief, FindingEntry, Moment, NoteEntry
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible

Value = str | Decimal | Moment | None
"""Text is visible already; none where there is nothing to say."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One thing that is said of every finding."""

    title: str
    width: int
    """In characters, where a format has widths."""
    value: Callable[[FindingEntry], Value]


COLUMNS = (
    Column(title="Ref", width=6, value=lambda finding: finding.ref),
    Column(title="State", width=10, value=lambda finding: wording.STATES[finding.state]),
    Column(title="Holdings", width=28, value=lambda finding: _holdings(finding)),
    Column(title="Symbols", width=16, value=lambda finding: _symbols(finding)),
    Column(title="Weight %", width=10, value=lambda finding: finding.holdings[0].weight_pct),
    Column(
        title="Said from",
        width=11,
        value=lambda finding: Moment(ms=finding.source.generated_in.start_ms),
    ),
    Column(
        title="Said to",
        width=11,
        value=lambda finding: Moment(ms=finding.source.generated_in.end_ms),
    ),
    Column(
        title="Play from", width=11, value=lambda finding: Moment(ms=finding.source.play.start_ms)
    ),
    Column(title="Remembered from", width=16, value=lambda finding: finding.source.available_from),
    Column(title=wording.LABELS["observed"], width=60, value=lambda finding: finding.observed),
    Column(
        title=wording.HEARD,
        width=15,
        value=lambda finding: "yes" if finding.is_audio_evidence else "no",
    ),
    Column(
        title=wording.LABELS["implication"], width=50, value=lambda finding: finding.implication
    ),
    Column(
        title=wording.LABELS["uncertainty"], width=40, value=lambda finding: finding.uncertainty
    ),
    Column(
        title=wording.LABELS["verification"], width=40, value=lambda finding: finding.verification
    ),
    Column(
        title="Marks",
        width=40,
        value=lambda finding: "\n".join(sentences.mark(mark) for mark in finding.marks),
    ),
    Column(title=wording.REPEATED, width=18, value=lambda finding: _repeats(finding)),
    Column(
        title=wording.NOTES,
        width=40,
        value=lambda finding: "\n".join(_note(note) for note in finding.notes),
    ),
    Column(
        title="Pictures, by SHA-256",
        width=24,
        value=lambda finding: "\n".join(
            dict.fromkeys(frame.sha256 for frame in finding.source.frames)
        ),
    ),
    Column(title="Key", width=10, value=lambda finding: finding.key),
)
_OF_THE_BRIEF = (
    ("Recording", 30),
    ("Job", 38),
    ("Brief status", 30),
    ("Brief note", 30),
    ("Brief SHA-256", 66),
)


def hours(ms: int) -> str:
    """`0:02:03`: hours always, since a spreadsheet reads `2:03` as two hours."""
    fraction = f".{ms % 1000:03d}" if ms % 1000 else ""
    second = ms // 1000
    return f"{second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}{fraction}"


def heads() -> list[tuple[str, int]]:
    """Title and width of every column."""
    return [*((column.title, column.width) for column in COLUMNS), *_OF_THE_BRIEF]


def rows(brief: Brief) -> Iterator[list[Value]]:
    """One a finding, each with the brief it is from; where there is none, one that says so."""
    about = _about(brief)
    for finding in brief.findings:
        values = (column.value(finding) for column in COLUMNS)
        said = [visible(value) if isinstance(value, str) else value for value in values]
        yield [*said, *about]
    if not brief.findings:
        nothing = f"{wording.NO_FINDINGS} {wording.NO_FINDING}"
        yield [
            *(nothing if column.title == "Marks" else None for column in COLUMNS),
            *about,
        ]


def _about(brief: Brief) -> list[Value]:
    values = (
        brief.header.name,
        brief.provenance.job_id,
        brief.status.headline,
        brief.header.banner or "",
        sha256(brief),
    )
    return [visible(value) for value in values]


def _holdings(finding: FindingEntry) -> str:
    return "\n".join(holding.name for holding in finding.holdings)


def _symbols(finding: FindingEntry) -> str:
    return "\n".join(filter(None, map(facts.symbol, finding.holdings)))


def _repeats(finding: FindingEntry) -> str:
    return "\n".join(hours(repeat.generated_in.start_ms) for repeat in finding.repeats)


def _note(note: NoteEntry) -> str:
    return ": ".join(filter(None, (sentences.note(note), note.text)))
