"""A brief in which every text of the hostile corpus stands everywhere, and formulas besides."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from io import BytesIO

from PIL import Image

from pipeline.brief.document import Brief
from pipeline.records import Dossier, NoteAction
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile

FORMULAS = (
    "=1+1",
    '=HYPERLINK("http://evil.example","x")',
    "+1+1",
    "-1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1,1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    '"=1+1',
    "'=1+1",
    "\u3000=1+1",
    "\uff1d1+1",
    "\uff0b1+1",
    "\uff0d1+1",
    "\uff20SUM(1,1)",
    "\uff02\uff1d1",
    "x;=1+1",
    'x";=1+1',
    "x; +cmd|' /C calc'!A0",
    "x\n=1+1",
    "_x003D_1+1",
    "_x000D_=1",
    "{=1+1}",
)

MARKUP = (
    '#read("/etc/passwd") #sys.inputs $x^2$ *bold* _it_ `raw` @ref <label> = Heading',
    "]#panic()[ \\u{0} // comment /* block */ ~ --- ... \\",
    "00:00:01.000 --> 00:00:02.000",
    "NOTE x\n\n1\n00:00:01,000 --> 00:00:02,000\n<i>tag</i> {\\an8}{y:i} <c.red> &lt;b&gt;",
    "WEBVTT\nSTYLE\n::cue { color: red }",
    "]]></w:t></w:r><w:p/> <![CDATA[ <?xml?> <!ENTITY x>",
    "../../etc/passwd",
    "..\\..\\evil.exe",
    "/abs/x.mp4\x00.png",
    "שלום (50 %) עולם. مرحبا; हिन्दी ไทย 中文 日本語 한국어 Ελληνικά Русский 😀 \ue000",
)

TEXTS = tuple(dict.fromkeys((*hostile.CORPUS, *FORMULAS, *MARKUP)))


def dossier() -> Dossier:
    """One finding, one holding, one piece of evidence and one note for each text."""
    texts = [text for text in TEXTS if text.strip()]
    base = hostile.dossier("\n".join(MARKUP))
    return replace(
        base,
        holdings=tuple(
            make.holding(f"h{number}", name=text, ticker=text, exchange=text)
            for number, text in enumerate(texts)
        ),
        findings=tuple(
            make.finding(
                f"h{number}",
                turn=number,
                evidence=text,
                implication=text,
                uncertainty=text,
                verification=text,
                unmatched=(text,),
                origin=make.origin(number * 1_000, number * 1_000 + 500),
            )
            for number, text in enumerate(texts)
        ),
        evidence=tuple(
            make.evidence(text, turn=1000 + number) for number, text in enumerate(texts)
        ),
        notes=tuple(
            make.note(NoteAction.NOTE, turn=number, text=text, author=text)
            for number, text in enumerate(texts)
        ),
    )


@lru_cache(maxsize=1)
def brief() -> Brief:
    return make.assemble(dossier())


@lru_cache(maxsize=1)
def jpeg() -> bytes:
    """A picture that can be decoded, of the size that the factories' frames say."""
    made = BytesIO()
    Image.new("RGB", (448, 252), (29, 78, 137)).save(made, "JPEG")
    return made.getvalue()


def frame_bytes(sha256: str) -> bytes:
    return jpeg()


def squeezed(text: str) -> str:
    """Without white space, for formats that break lines as they like."""
    return "".join(text.split())
