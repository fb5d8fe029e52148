"""The findings as short texts to be shown while the recording plays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.brief import wording
from pipeline.brief.document import Brief, FindingEntry, Source
from pipeline.brief.figures import count, percent
from pipeline.brief.links import player
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible
from pipeline.records import NoteState

LINE_CELLS_MAX = 60
"""Wider lines run off a small player; a wide character takes two cells."""
OBSERVED_LINES_MAX = 4
IMPLICATION_LINES_MAX = 3
SHOWN_MIN_MS = 4_000
SHOWN_MAX_MS = 30_000
READ_MS_PER_CELL = 60
"""About 17 characters a second, the pace that subtitles are made for."""
INTRO_MS = 6_000

_MORE = "…"
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60"
    "\uffe0-\uffe6\U0001f300-\U0001faff\U00020000-\U0003fffd]"
)


@dataclass(frozen=True, kw_only=True)
class Cue:
    """Lines and when they are shown, on the player's clock."""

    name: str
    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    """Visible text, none of them blank."""


def cues(brief: Brief) -> list[Cue]:
    """By time: what the brief is, then every finding each time that it was said."""
    offset_ms = player(brief, None).offset_ms
    made = [
        _cue(finding, source, number, offset_ms)
        for finding in brief.findings
        for number, source in enumerate((finding.source, *finding.repeats), start=1)
    ]
    made.sort(key=lambda cue: cue.start_ms)
    return [_intro(brief), *made]


def _intro(brief: Brief) -> Cue:
    """What a viewer must know first, and the digest for formats that have no other place."""
    header = brief.header
    findings = count(len(brief.findings), "finding", "findings")
    lines = (
        *_wrapped(f"Brief: {header.name}", 1),
        *_wrapped(f"{brief.status.headline} · {findings}", 2),
        *(_wrapped(header.banner, 4) if header.banner else ()),
        *(() if brief.findings else _wrapped(wording.NO_FINDING, 2)),
        f"SHA-256 {sha256(brief)}",
    )
    return Cue(name="brief", start_ms=0, end_ms=INTRO_MS, lines=lines)


def _cue(finding: FindingEntry, source: Source, number: int, offset_ms: int) -> Cue:
    again = f" ({wording.REPEATED.lower()} {source.generated_in.text})" if number > 1 else ""
    state = "" if finding.state is NoteState.OPEN else f" · {wording.STATES[finding.state]}"
    names = ", ".join(
        f"{holding.name} ({percent(holding.weight_pct)})" for holding in finding.holdings
    )
    lines = (
        *_wrapped(f"{finding.ref}{state}{again} · {names}", 2),
        *_wrapped(finding.observed, OBSERVED_LINES_MAX),
        *_wrapped(f"{wording.LABELS['implication']}: {finding.implication}", IMPLICATION_LINES_MAX),
    )
    read_ms = READ_MS_PER_CELL * sum(map(_cells, lines))
    shown_min_ms = min(max(SHOWN_MIN_MS, read_ms), SHOWN_MAX_MS)
    start_ms = source.play.start_ms + offset_ms
    shown_ms = min(source.play.end_ms - source.play.start_ms, SHOWN_MAX_MS)
    return Cue(
        name=finding.ref if number == 1 else f"{finding.ref}-{number}",
        start_ms=start_ms,
        end_ms=start_ms + max(shown_ms, shown_min_ms),
        lines=lines,
    )


def _wrapped(text: str, lines_max: int) -> list[str]:
    """Lines that are not too wide; what does not fit is left out behind an ellipsis."""
    lines: list[str] = []
    line = ""
    for word in _pieces(visible(text)):
        longer = f"{line} {word}" if line else word
        if _cells(longer) <= LINE_CELLS_MAX:
            line = longer
            continue
        lines.append(line)
        line = word
        if len(lines) == lines_max:
            lines[-1] += _MORE
            return lines
    return [*lines, line] if line else lines


def _pieces(text: str) -> Iterator[str]:
    """Words, those too wide for a line cut into what fits."""
    for word in text.split():
        piece = ""
        for character in word:
            if _cells(piece + character) > LINE_CELLS_MAX:
                yield piece
                piece = ""
            piece += character
        yield piece


def _cells(text: str) -> int:
    return len(text) + len(_WIDE.findall(text))
