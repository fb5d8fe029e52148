"""The brief as a Word document, read back part by part."""

from __future__ import annotations

import io
import re
import zipfile
from functools import lru_cache
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE

from pipeline.brief.document import Brief
from pipeline.brief.render_docx import to_docx
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile_table
from tests.pipeline.brief.hostile_table import frame_bytes
from tests.pipeline.brief.test_pdf import SECTIONS

LEFT_TO_RIGHT_MARK = "\u200e"


def made(brief: Brief, recording_href: str | None = "r.mp4") -> bytes:
    return to_docx(brief, recording_href=recording_href, frame_bytes=frame_bytes)


@lru_cache(maxsize=1)
def full() -> bytes:
    return made(make.assemble(make.full()))


@lru_cache(maxsize=1)
def hostile() -> bytes:
    return made(hostile_table.brief())


def read(content: bytes) -> Any:
    return docx.Document(io.BytesIO(content))


def lines(document: Any) -> list[str]:
    """The text of every paragraph, those in tables too, in the order they stand."""
    return [_text(part) for part in document.element.body.iter("{*}p")]


def _text(paragraph: Any) -> str:
    return "".join(
        "\n" if part.tag.endswith("}br") else part.text or ""
        for part in paragraph.iter("{*}t", "{*}br")
    ).replace(LEFT_TO_RIGHT_MARK, "")


def links(document: Any) -> list[str]:
    relations = document.part.rels.values()
    return [rel.target_ref for rel in relations if rel.reltype == RELATIONSHIP_TYPE.HYPERLINK]


def test_the_headings_are_the_sections_in_the_order_they_are_read() -> None:
    document = read(full())
    styles = [(p.style.name, p.text) for p in document.paragraphs if p.style.name[:7] == "Heading"]
    assert styles[0] == ("Heading 1", "Investor day")
    assert [said for style, said in styles if style == "Heading 2"] == SECTIONS
    assert [said for style, said in styles if style == "Heading 3"][2].startswith("F1 · Company h1")


def test_links_are_real_and_those_within_lead_to_a_heading() -> None:
    document = read(full())
    assert "r.mp4#t=3,9" in links(document)
    body = document.element.body
    names = {mark.get(f"{{{mark.nsmap['w']}}}name") for mark in body.iter("{*}bookmarkStart")}
    inside = {link.get(f"{{{link.nsmap['w']}}}anchor") for link in body.iter("{*}hyperlink")}
    assert {"F1", "F2"} <= inside - {None} <= names
    assert links(read(made(make.assemble(make.full()), None))) == []


def test_every_picture_is_described_and_none_is_stored_twice() -> None:
    document = read(full())
    described = [shape.get("descr") for shape in document.element.body.iter("{*}docPr")]
    assert described[0] == "Picture from the recording at 0:08"
    assert "Timeline of the recording from 0:00 to 0:10" in described[1]
    with zipfile.ZipFile(io.BytesIO(full())) as package:
        media = [name for name in package.namelist() if name.startswith("word/media/")]
        assert sorted(media) == ["word/media/frame-1.jpg", "word/media/timeline.png"]
        assert package.read("word/media/frame-1.jpg") == frame_bytes("")


def test_its_properties_are_the_briefs_and_its_times_are_stored_ones() -> None:
    properties = read(full()).core_properties
    assert properties.title == "Investor day"
    assert properties.language == "en"
    assert sha256(make.assemble(make.full())) in properties.comments
    for moment in (properties.created, properties.modified):
        assert moment.replace(tzinfo=None).isoformat() == "2026-03-06T07:30:00"


def test_tables_repeat_their_heads_and_hold_what_the_brief_says() -> None:
    document = read(full())
    heads = [table.rows[0] for table in document.tables if table._tbl.xpath(".//w:tblHeader")]
    assert [cell.text for cell in heads[0].cells] == [
        "Holding",
        "Weight",
        "Findings",
        "First moment",
    ]
    said = "\n".join(lines(document))
    assert sha256(make.assemble(make.full())) in said
    assert "The slide was visible for one second." in said
    assert "Ada" in said


def test_every_hostile_text_stands_there_as_text() -> None:
    written = lines(read(hostile()))
    for finding in hostile_table.brief().findings:
        assert visible(finding.observed).replace("\t", " ") in written, finding.observed


def test_hostile_text_brings_no_part_no_field_and_no_link() -> None:
    assert {link.partition("#")[0] for link in links(read(hostile()))} == {"r.mp4"}
    with (
        zipfile.ZipFile(io.BytesIO(hostile())) as package,
        zipfile.ZipFile(io.BytesIO(full())) as ordinary,
    ):
        assert set(package.namelist()) == set(ordinary.namelist()) - {"word/media/frame-1.jpg"}
        body = package.read("word/document.xml").decode().replace(LEFT_TO_RIGHT_MARK, "")
    assert not re.search(r"<w:(instrText|fldSimple|fldChar|object|altChunk)", body)
    assert visible(body) == body


def test_a_paragraph_that_was_written_from_right_to_left_is_set_so() -> None:
    dossier = make.dossier(
        findings=(make.finding(evidence="ارتفعت الطلبات", implication="Up."),),
        holdings=(make.holding("h1", name="בנק לאומי"),),
    )
    paragraphs = read(made(make.assemble(dossier))).element.body.iter("{*}p")
    turned = [_text(line) for line in paragraphs if line.xpath("./w:pPr/w:bidi")]
    assert "ارتفعت الطلبات" in turned
    # A name within our own words turns nothing but itself.
    assert not [line for line in turned if "50" in line]
