"""Text that tries to become something else than text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.brief.document import Brief, HoldingName
from pipeline.records import (
    Dossier,
    EngineInfo,
    EvidenceKind,
    JobState,
    MediaStream,
    NoteAction,
    RecordingRecord,
    Remark,
    TextMark,
)
from tests.pipeline.brief import factories as make

CORPUS = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\"><a href='javascript:alert(1)'>x</a>",
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }} {% raw %} {# x #}",
    "&lt;b&gt; &amp; &#106; &copy",
    "[text](javascript:alert(1))",
    "![picture](http://evil.example/x.png)",
    "[text](page) ![picture](picture.png)",
    "[ref]: page",
    "//localhost/x ftp://evil.example",
    "[ref]: http://evil.example",
    "[ref][ref] [^1] [ ] [x]",
    "<http://evil.example> <a@b.example>",
    "http://evil.example/a_b*c*?d=e|f",
    "see www.evil.example, or HTTPS://EVIL.EXAMPLE.",
    "evil.com and sub.evil.co.uk/path",
    "a@b.example mailto:a@b.example",
    "`http://x.example` ``code`` http://a`b`c.example",
    "# heading",
    "heading\n===",
    "heading\n---",
    "***",
    "- item\n+ item\n* item\n1. item\n2) item",
    "    indented code",
    "\tindented code",
    "```\nfence\n```",
    "~~~\nfence\n~~~",
    "> quote",
    "a | b\n--|--\nc | d",
    "| a | b |",
    "**bold** _it_ ~~gone~~ ==mark== $x^2$ H~2~O",
    ":smile: \\* \\",
    "trailing backslash\\",
    "two  spaces  \nbreak",
    "a\r\nb\rc",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200b\ufeff\u00ad",
    "\x00\x07\x1b[31mred\x1b[0m\x7f\x9b",
    "\ud800 half a pair",
    "line\u2028paragraph\u2029end\x85",
    "\U000e0041\U000e0042 tags",
    "Z" + "\u0301" * 60,
    "مرحبا (عالم) 株式会社 “quotes” — 5.1bn",
    "W" * 500,
    "$5.1bn + 3.5% = 10-K #1 (see p. 4), AT&T, S&P 500, U.S., Yahoo!",
    "",
    " ",
)


def dossier(text: str) -> Dossier:
    """A job in which everything that others write says the same."""
    base = make.dossier()
    said: dict[str, Any] = dict.fromkeys(
        ("evidence", "implication", "uncertainty", "verification", "text"), text
    )
    marks = (TextMark(code=text, count=2), TextMark(code="trade_order", count=1))
    ended = make.media_end(remarks=(Remark(code=text, message=text),))
    stream = MediaStream(
        index=0, kind=text, codec=text, is_chosen=True, reason=text, details={text: text}
    )
    return replace(
        base,
        state=JobState.FAILED,
        request=make.request(title=text, objective=text, engine=text),
        holdings=(
            make.holding("h1", name=text, ticker=text, exchange=text),
            make.holding("h2", name=text, ticker=text, exchange=text),
        ),
        recording=RecordingRecord(
            filename=text,
            sha256=make.sha256("r"),
            size_bytes=1,
            probe=make.probe(format=text, streams=(stream,)),
        ),
        epochs=(
            make.epoch(
                engine=EngineInfo(name=text, revision=text, device=text, settings={text: text}),
                end_reason=text,
                end_detail=text,
                media_end=ended,
            ),
        ),
        units=make.units(range(9)),
        findings=(
            make.finding(
                unmatched=(text,), ambiguous=(text, text), is_closed=False, marks=marks, **said
            ),
            make.finding("h2", turn=2, **said),
        ),
        evidence=(make.evidence(text, kind=EvidenceKind.CUT, marks=marks),),
        notes=(
            make.note(text=text, author=text),
            make.note(NoteAction.REJECT, number=2, text=text, author=text),
        ),
    )


def brief(text: str) -> Brief:
    """Compared with two others whose every word is hostile too."""
    other = replace(
        make.past_finding("h1", ref=text, observed=text, implication=text + "2"),
        holdings=(HoldingName(id="h1", name=text), HoldingName(id=text, name=text)),
    )
    same = make.past_finding("h2", ref=text, observed=text + "1", implication=text)
    past = make.past(other, same, title=text, job_id=text)
    return make.assemble(dossier(text), previous=past, against=past)
