"""The brief as a PDF with tags, bookmarks and its own fonts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from pipeline.brief import sentences, wording
from pipeline.brief.document import Brief
from pipeline.brief.flow import (
    Block,
    Bullets,
    Drawing,
    Facts,
    Heading,
    Paragraph,
    Pictures,
    Run,
    Runs,
    Table,
    Tone,
    plain,
)
from pipeline.brief.flow_sections import blocks
from pipeline.brief.glyphs import drawable
from pipeline.brief.isolated import isolated
from pipeline.brief.newest import newest_time
from pipeline.brief.pages import typeset
from pipeline.brief.render_json import sha256
from pipeline.brief.timeline_svg import to_svg
from pipeline.brief.visible import visible

_TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = "brief.typ"

DRAWING_WIDTH_PX = 640
"""The text's width on the page, with letters of 9 points."""

_Made: TypeAlias = dict[str, object]

# Without a place to break, a long word would run off the page.
_LONG = re.compile("([!-\u2dff]{24})(?=[!-\u2dff])")
_BREAK = "\u200b"


def to_pdf(
    brief: Brief, *, recording_href: str | None, frame_bytes: Callable[[str], bytes]
) -> bytes:
    """Pictures are embedded; without a `recording_href` a link's fragment is shown as text."""
    with TemporaryDirectory(prefix="omnai-pdf-") as name:
        folder = Path(name)
        _lay_out(brief, folder, recording_href=recording_href, frame_bytes=frame_bytes)
        return typeset(folder, TEMPLATE, "pdf", at=newest_time(brief))


def timeline_png(brief: Brief) -> bytes:
    """The timeline's drawing, for formats that know no SVG."""
    with TemporaryDirectory(prefix="omnai-png-") as name:
        folder = Path(name)
        _draw(brief, folder)
        (folder / "timeline.typ").write_bytes((_TEMPLATES / "timeline.typ").read_bytes())
        return typeset(folder, "timeline.typ", "png", at=newest_time(brief))


def _draw(brief: Brief, folder: Path) -> None:
    (folder / "timeline.svg").write_text(to_svg(brief.timeline, width=str(DRAWING_WIDTH_PX)))


def _lay_out(
    brief: Brief,
    folder: Path,
    *,
    recording_href: str | None,
    frame_bytes: Callable[[str], bytes],
) -> None:
    """Everything the template reads, so that text reaches it as data only."""
    writer = _Writer()
    made: list[_Made] = []
    (folder / "frames").mkdir()
    for block in blocks(brief, recording_href=recording_href):
        made.append(writer.block(block))
        if isinstance(block, Pictures):
            for still in block.stills:
                picture = folder / "frames" / f"{still.sha256}.jpg"
                if not picture.exists():
                    picture.write_bytes(frame_bytes(still.sha256))
    if writer.has_undrawn:
        note = writer.block(Paragraph(runs=plain(wording.UNDRAWN), tone=Tone.WARNING))
        made.insert(2, note)
    newest = newest_time(brief)
    data = {
        "title": writer.text(" ".join(brief.header.name.split())),
        "sha256": sha256(brief),
        "date": {
            "year": newest.year,
            "month": newest.month,
            "day": newest.day,
            "hour": newest.hour,
            "minute": newest.minute,
            "second": newest.second,
        },
        "blocks": made,
    }
    (folder / "data.json").write_text(json.dumps(data, ensure_ascii=True))
    (folder / TEMPLATE).write_bytes((_TEMPLATES / TEMPLATE).read_bytes())
    _draw(brief, folder)


class _Writer:
    """Turns blocks into what the template takes, and knows whether a glyph was lacking."""

    def __init__(self) -> None:
        self.has_undrawn = False

    def text(self, text: str) -> str:
        drawn, lacks = drawable(visible(text).replace("\t", " "))
        self.has_undrawn = self.has_undrawn or lacks
        return drawn

    def block(self, block: Block) -> _Made:
        match block:
            case Heading():
                return {
                    "kind": "heading",
                    "level": block.level,
                    "runs": self._runs(block.runs),
                    "anchor": block.anchor,
                }
            case Paragraph():
                return {
                    "kind": "paragraph",
                    "tone": block.tone.value,
                    "runs": self._runs(block.runs),
                }
            case Bullets():
                items = [self._runs(item) for item in block.items]
                return {"kind": "bullets", "tone": block.tone.value, "items": items}
            case Facts():
                rows = [
                    {"name": self.text(name), "value": self._runs(value)}
                    for name, value in block.rows
                ]
                return {"kind": "facts", "rows": rows}
            case Table():
                return self._table(block)
            case Pictures():
                return self._pictures(block)
            case Drawing():
                return {"kind": "drawing", "alt": block.alt}

    def _table(self, table: Table) -> _Made:
        return {
            "kind": "table",
            "head": [self.text(name) for name in table.head],
            "widths": list(table.widths),
            "numeric": sorted(table.numeric),
            "rows": [[{"runs": self._runs(cell)} for cell in row] for row in table.rows],
        }

    def _pictures(self, pictures: Pictures) -> _Made:
        frames = [
            {
                "sha256": still.sha256,
                "alt": sentences.frame_alt(still.text),
                "moment": still.text,
            }
            for still in pictures.stills
        ]
        return {"kind": "pictures", "frames": frames}

    def _runs(self, runs: Runs) -> list[_Made]:
        return [self._run(run) for run in runs]

    def _run(self, run: Run) -> _Made:
        text = self.text(run.text)
        return {
            "text": text if run.is_code else isolated(_LONG.sub(rf"\1{_BREAK}", text)),
            "is_strong": run.is_strong,
            "is_soft": run.is_soft,
            "is_code": run.is_code,
            "href": run.href,
            "target": run.target,
        }
