"""Every sentence of a brief is a stored text, a measured number or fixed wording.

Stored texts are Greek words here, each its own. Whatever else a brief says is a constant of the
wording or stands in `phrases.txt`, which was read by eye: `#` is a number, a time or a digest, `@`
a stored text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from html.parser import HTMLParser
from itertools import count, groupby
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pipeline.brief import wording
from pipeline.brief.document import Brief
from pipeline.brief.past import PastBrief
from pipeline.brief.render_html import to_html
from pipeline.brief.render_json import to_json
from pipeline.brief.render_markdown import to_markdown
from pipeline.records import (
    Decision,
    Dossier,
    EndReason,
    EngineInfo,
    EvidenceKind,
    Gap,
    JobState,
    Likeness,
    MediaStream,
    NoteAction,
    Options,
    Remark,
    SessionEnd,
    TextMark,
)
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble

_READ = (Path(__file__).parent / "phrases.txt").read_text(encoding="utf-8")
_CODES = (JobState, EndReason, NoteAction)
LETTERS = "αβγδεζηθικλμνξοπ"
MARKS = ("secret_masked", "prompt_echo", "repetition", "trade_order", "link", "numbers")

_DIGEST = r"[0-9a-f]{64}"
_TIME = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d{6})?(?:Z| UTC))?"
_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NUMBER = r"−?\d[\d,.:]*(?<![,.:])(?:\u00a0%)?"
_MEASURED = re.compile(rf"{_DIGEST}|{_TIME}|{_ID}|\b(?:t=[\d.,]+)|{_NUMBER}")
_STORED = re.compile(f"[{LETTERS}]+")
_RANGE = re.compile("#–#")


def phrases(text: str) -> Iterator[str]:
    """A text's sentences without their measured and stored parts; equal parts of a list once."""
    bare = _STORED.sub("@", _MEASURED.sub("#", text))
    bare = re.sub(r"\b([FE])#", r"\1", bare)
    bare = re.sub(r"ended with \w+", "ended with @", bare)
    for sentence in re.split(r"(?<=[.:]) | · ", " ".join(bare.split())):
        yield ", ".join(part for part, _ in groupby(_RANGE.sub("#", sentence).split(", ")))


def fixed(value: object) -> Iterator[str]:
    """The fixed texts in a constant of the wording."""
    if isinstance(value, str):
        yield from phrases(value)
    elif isinstance(value, Mapping):
        yield from (found for item in value.values() for found in fixed(item))
    elif isinstance(value, tuple):
        yield from (found for item in value for found in fixed(item))


PHRASES = frozenset(
    {
        *_READ.splitlines(),
        *(code.value for kind in _CODES for code in kind),
        *(found for value in vars(wording).values() for found in fixed(value)),
    }
)


class Rows:
    """Draws a job in which no two texts are the same."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.stored: set[str] = set()
        self._numbers = count(1)

    def text(self) -> str:
        number = next(self._numbers)
        made = "".join(LETTERS[int(digit, 16)] for digit in f"{number:04x}")
        self.stored.add(made)
        return made

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def some(self, most: int) -> range:
        return range(self.draw(st.integers(0, most)))

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def marks(self) -> tuple[TextMark, ...]:
        return tuple(TextMark(code=code, count=self.pick(1, 2)) for code in MARKS if self.flag())

    def origin(self) -> Any:
        start_ms = 1000 * self.draw(st.integers(0, 9))
        frames = tuple(make.frame(str(number), source_ms=start_ms) for number in self.some(5))
        return make.origin(start_ms, start_ms + 1000, frames=frames)

    def finding(self, turn: int, ids: list[str]) -> Any:
        return make.finding(
            *self.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True)),
            epoch=self.pick(1, 2),
            turn=turn,
            evidence=self.text(),
            implication=self.text(),
            uncertainty=self.text(),
            verification=self.text(),
            text=self.text(),
            is_audio_evidence=self.flag(),
            is_closed=self.flag(),
            unmatched=tuple(self.text() for _ in self.some(2)),
            ambiguous=tuple(self.text() for _ in self.some(2)),
            marks=self.marks(),
            origin=self.origin(),
        )

    def epoch(self, number: int) -> Any:
        ended = make.media_end(
            remarks=tuple(
                Remark(
                    code=self.text(),
                    message=self.text(),
                    count=self.pick(1, 3),
                    start_ms=self.pick(None, 1000),
                    end_ms=self.pick(None, 2000),
                )
                for _ in self.some(2)
            )
        )
        reasons = [reason.value for reason in EndReason]
        consumed, speaking = self.flag(), self.flag()
        return make.epoch(
            number,
            start_s=self.pick(0, 3),
            engine=EngineInfo(
                name=self.pick("rehearsal", self.text()),
                revision=self.text(),
                device=self.pick("cuda:0", "cpu"),
                settings={self.text(): self.pick(self.text(), True, None, 7)},
            ),
            ended_at=self.pick(None, make.epoch().ended_at),
            end_reason=self.pick(None, self.text(), *reasons),
            end_detail=self.pick(None, self.text()),
            gaps=(Gap(start_ms=3_000, end_ms=8_000),) if self.flag() else (),
            media_end=self.pick(None, ended),
            session_end=self.pick(
                None, SessionEnd(is_audio_consumed=consumed, is_utterance_open=speaking)
            ),
        )

    def unit(self, epoch: int, second: int) -> Any:
        return make.unit(
            second,
            epoch=epoch,
            decision=self.pick(*Decision),
            frame_ms=self.pick(None, second * 1000),
            rms_dbfs=self.pick(None, -20.0),
            real_samples=self.pick(0, 16_000),
            filled_samples=self.pick(0, 8_000),
            inference_ms=self.pick(None, 12.5),
        )

    def dossier(self) -> Dossier:
        ids = ["h1", "h2", "h3"]
        numbers = [number + 1 for number in self.some(2)]
        findings = tuple(self.finding(turn, ids) for turn in self.some(4)) if numbers else ()
        stream = MediaStream(
            index=0,
            kind=self.text(),
            codec=self.pick(None, self.text()),
            is_chosen=self.flag(),
            reason=self.text(),
            details={self.text(): self.text()},
        )
        probe = make.probe(
            format=self.text(),
            streams=(stream,),
            packet_end_ms=self.pick(None, 20_000),
            declared_duration_ms=self.pick(None, 20_000),
        )
        base = make.dossier()
        at = datetime(2026, 3, 6, tzinfo=timezone.utc)
        return make.dossier(
            state=self.pick(*JobState),
            end_reason=self.pick(None, self.text()),
            ended_at=self.pick(None, base.ended_at),
            request=make.request(
                objective=self.text(),
                title=self.pick(None, self.text()),
                event_date=self.pick(None, base.request.event_date),
                engine=self.pick("rehearsal", self.text()),
                options=Options(start_s=self.pick(0, 3)),
            ),
            holdings=tuple(
                make.holding(
                    id,
                    name=self.text(),
                    ticker=self.pick(None, self.text()),
                    exchange=self.pick(None, self.text()),
                    weight_pct=self.pick(Decimal("12.5"), Decimal(-3)),
                )
                for id in ids
            ),
            recording=replace(base.recording, filename=self.text(), probe=self.pick(None, probe)),
            epochs=tuple(self.epoch(number) for number in numbers),
            units=tuple(
                self.unit(number, second)
                for number in numbers
                for second in range(self.draw(st.integers(0, 10)))
            ),
            findings=tuple(finding for finding in findings if finding.epoch in numbers),
            evidence=tuple(
                make.evidence(
                    self.pick("", self.text()),
                    turn=10 + turn,
                    kind=self.pick(*EvidenceKind),
                    marks=self.marks(),
                    origin=self.origin(),
                )
                for turn in self.some(2 if numbers else 0)
            ),
            notes=tuple(
                make.note(
                    self.pick(*NoteAction),
                    epoch=finding.epoch,
                    turn=finding.turn,
                    number=number + 1,
                    text=self.pick("", self.text()),
                    author=self.text(),
                    at=at + timedelta(hours=number),
                )
                for finding in findings
                for number in self.some(2)
            ),
        )

    def past(self) -> PastBrief | None:
        findings = (
            make.past_finding(
                *self.pick(("h1",), ("h2", "h3"), ("h9",)),
                ref=f"F{number}",
                observed=self.text(),
                implication=self.text(),
            )
            for number in self.some(3)
        )
        named = tuple(
            replace(
                finding,
                holdings=tuple(replace(holding, name=self.text()) for holding in finding.holdings),
            )
            for finding in findings
        )
        return self.pick(None, make.past(*named, title=self.text()))


def said_in_json(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from said_in_json(item)
    elif isinstance(value, list):
        for item in value:
            yield from said_in_json(item)
    elif isinstance(value, str):
        yield value


def said_in_html(brief: Brief) -> list[str]:
    said: list[str] = []

    class Page(HTMLParser):
        is_style = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.is_style = tag == "style"
            spoken = ("alt", "aria-label", "title")
            said.extend(value for name, value in attrs if name in spoken and value)

        def handle_endtag(self, tag: str) -> None:
            self.is_style = False

        def handle_data(self, data: str) -> None:
            if not self.is_style:
                said.append(data)

    Page().feed(to_html(brief, recording_href="r.mp4", frame_bytes=lambda _: b""))
    return said


def said_in_markdown(brief: Brief) -> list[str]:
    written = to_markdown(brief, recording_href="r.mp4", frame_href=lambda name: f"{name}.jpg")
    said: list[str] = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(written):
        part = ""
        for child in token.children or []:
            if child.type in ("softbreak", "hardbreak"):
                said.append(part)
                part = ""
            else:
                part += child.content
        said.append(part)
    return said


def unknown(said: list[str]) -> set[str]:
    """Phrases that nobody has read."""
    return {found for text in said for found in phrases(text) if found} - PHRASES


@settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.data(), st.sampled_from(list(Likeness)))
def test_every_sentence_is_stored_or_measured_or_fixed(
    data: st.DataObject, judged: Likeness
) -> None:
    rows = data.draw(st.composite(lambda draw: Rows(draw))())
    dossier, previous, against = rows.dossier(), rows.past(), rows.past()
    brief = assemble(
        dossier,
        previous=previous,
        against=against,
        likeness=lambda a, b: (
            judged if set(a.holding_ids) == set(b.holding_ids) else Likeness.OTHER
        ),
    )
    for said in (
        list(said_in_json(json.loads(to_json(brief)))),
        said_in_html(brief),
        said_in_markdown(brief),
    ):
        assert unknown(said) == set()
        assert {word for text in said for word in _STORED.findall(text)} <= rows.stored
