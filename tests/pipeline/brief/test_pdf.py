"""The brief as a PDF, read back with another library."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from pypdf import PdfReader

from pipeline.brief.document import Brief
from pipeline.brief.glyphs import drawable
from pipeline.brief.pages import PagesNotSet
from pipeline.brief.picture_choice import PIXELS_MAX, frames_shown
from pipeline.brief.render_json import sha256
from pipeline.brief.render_pdf import to_pdf
from pipeline.brief.typeset import FONTS
from pipeline.brief.visible import visible
from pipeline.brief.wording import UNDRAWN
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile, hostile_table
from tests.pipeline.brief.hostile_table import frame_bytes, squeezed

SECTIONS = [
    "Status",
    "Bottom line",
    "Exposure",
    "Findings",
    "Timeline",
    "Coverage",
    "Changes",
    "Method and limits",
    "Evidence not in findings",
    "Provenance",
]


def read(brief: Brief, recording_href: str | None = "r.mp4") -> PdfReader:
    made = to_pdf(brief, recording_href=recording_href, frame_bytes=frame_bytes)
    return PdfReader(io.BytesIO(made))


def text(pdf: PdfReader) -> str:
    return "\n".join(page.extract_text() for page in pdf.pages)


@lru_cache(maxsize=1)
def full() -> PdfReader:
    return read(make.assemble(make.full()))


@lru_cache(maxsize=1)
def with_hostile_text() -> PdfReader:
    texts = tuple(dict.fromkeys((*hostile_table.MARKUP, *hostile.CORPUS)))
    base = hostile.dossier(hostile_table.MARKUP[0])
    findings = tuple(
        make.finding(turn=turn, evidence=said) for turn, said in enumerate(texts) if said.strip()
    )
    return read(make.assemble(replace(base, findings=findings)))


def titles(outline: list[Any], depth: int = 0) -> list[tuple[int, str]]:
    """Bookmarks with how deep they lie."""
    found: list[tuple[int, str]] = []
    for item in outline:
        if isinstance(item, list):
            found += titles(item, depth + 1)
        else:
            found.append((depth, item.title))
    return found


def links(pdf: PdfReader) -> list[str]:
    annotations = [a.get_object() for page in pdf.pages for a in page.get("/Annots", [])]
    assert {annotation["/Subtype"] for annotation in annotations} <= {"/Link"}
    return [a["/A"]["/URI"] for a in annotations if "/URI" in a.get("/A", {})]


def test_the_bookmarks_are_the_sections_in_the_order_they_are_read() -> None:
    found = titles(full().outline)
    assert found[0] == (0, "Investor day")
    assert [title for depth, title in found if depth == 1] == SECTIONS
    assert (2, "F1 · Company h1 (50 %) · Verification done") in [
        (depth, title.replace("\u00a0", " ")) for depth, title in found
    ]


def test_a_screen_reader_finds_tags_a_language_a_title_and_words_for_the_pictures() -> None:
    root: Any = full().trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "en"
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert full().metadata is not None
    assert full().metadata.title == "Investor day"
    described = [
        element["/Alt"]
        for element in (
            o.get_object() for o in map(full().get_object, range(1, full().trailer["/Size"])) if o
        )
        if isinstance(element, dict) and element.get("/S") == "/Figure"
    ]
    assert "Picture from the recording at 0:08" in described
    assert any("Timeline of the recording" in words for words in described)


def test_its_times_are_stored_ones() -> None:
    metadata: Any = full().metadata
    assert metadata.creation_date.isoformat() == "2026-03-06T07:30:00+00:00"


def test_play_links_lead_to_the_moment_and_are_text_without_a_recording() -> None:
    assert "r.mp4#t=3,9" in links(full())
    without = read(make.assemble(make.full()), None)
    assert links(without) == []
    assert "#t=3,9" in text(without)


def test_every_page_has_its_number_and_the_digest() -> None:
    pages = [page.extract_text() for page in full().pages]
    digest = sha256(make.assemble(make.full()))
    for number, page in enumerate(pages, start=1):
        assert f"Page {number} of {len(pages)}" in page
        assert digest in page


def test_hostile_text_is_set_as_text_and_nothing_runs_or_is_attached() -> None:
    pdf = with_hostile_text()
    written = squeezed(text(pdf)).replace("\u200b", "")
    for said in (*hostile_table.MARKUP, *hostile.CORPUS):
        # Extraction gives letters of other scripts, and ligatures, in ways of its own.
        if said.isascii() and said.isprintable() and "ff" not in said and "fi" not in said:
            assert squeezed(visible(said)) in written, said
    root: Any = pdf.trailer["/Root"]
    assert not {"/OpenAction", "/AA", "/AcroForm", "/Names"} & (set(root) - {"/Names"})
    assert "/JavaScript" not in root.get("/Names", {})
    assert "/EmbeddedFiles" not in root.get("/Names", {})
    assert {link.partition("#")[0] for link in links(pdf)} == {"r.mp4"}


def test_a_character_without_a_glyph_is_shown_by_its_number_and_the_reader_is_told() -> None:
    finding = make.finding(evidence="Up \U0001f600 12%, 株式会社, שלום, ไทย, हिन्दी, 삼성.")
    pdf = read(make.assemble(make.dossier(findings=(finding,))))
    assert "[U+1F600]" in text(pdf)
    assert squeezed(UNDRAWN) in squeezed(text(pdf))
    assert "株式会社" in text(pdf)
    assert "삼성" in text(pdf)
    assert "[U+" not in text(full())


def test_every_character_that_is_said_to_have_a_glyph_has_one_in_both_weights() -> None:
    """The standard that the file is held to knows no box in place of a letter."""
    ranges = (FONTS / "coverage.txt").read_text().split()
    points = [
        point
        for start, _, end in (line.partition("-") for line in ranges)
        for point in range(int(start, 16), int(end or start, 16) + 1)
    ]
    assert len(points) > 25_000
    # Marks would combine with each other and right-to-left letters turn the line.
    said = " ".join(map(chr, points))
    assert drawable(said) == (said, False)
    finding = make.finding(evidence=said)
    brief = make.assemble(make.dossier(findings=(finding,)))
    strong = replace(brief, status=replace(brief.status, headline=said))
    assert len(read(strong).pages) > 5


def test_any_text_can_be_set() -> None:
    sample = "".join(map(chr, (*range(0, 0x3000, 7), *range(0x3000, 0x11_0000, 997))))
    finding = make.finding(evidence=sample, implication=sample[::-1])
    dossier = make.dossier(
        findings=(finding,), request=make.request(title=sample[:300], objective=sample)
    )
    assert read(make.assemble(dossier)).pages


def test_pictures_are_shown_first_ones_first_while_the_pixels_last() -> None:
    large = [make.frame(str(number), width_px=4_000, height_px=1_500) for number in range(30)]
    findings = tuple(
        make.finding(
            turn=turn,
            evidence=f"Slide {turn}.",
            origin=make.origin(
                turn * 1_000, turn * 1_000 + 500, frames=tuple(large[3 * turn :][:3])
            ),
        )
        for turn in range(6)
    )
    shown = frames_shown(make.assemble(make.dossier(findings=findings)).findings)
    # Ten of six million pixels: everyone's first, then four second ones.
    assert PIXELS_MAX == 10 * 6_000_000
    assert list(shown.values()) == [2, 2, 2, 2, 1, 1]


def test_a_picture_that_cannot_be_read_is_told_in_words_and_logged_without_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(PagesNotSet, match="could not be set"):
        to_pdf(make.assemble(make.full()), recording_href=None, frame_bytes=lambda _: b"\xff\xd8")
    assert caplog.messages == ["Pages were not set."]
    caplog.clear()


def test_a_name_from_right_to_left_leaves_the_figures_after_it_in_place() -> None:
    holdings = (make.holding("h1", name="בנק לאומי"),)
    pdf = read(make.assemble(make.dossier(holdings=holdings, findings=(make.finding(),))))
    seen: list[tuple[float, float, str]] = []

    def see(said: str, moved: Any, placed: Any, *_: Any) -> None:
        seen.append((moved[5], moved[4] + placed[4], said))

    for page in pdf.pages:
        page.extract_text(visitor_text=see)
    line = next(height for height, _, said in seen if "· Open" in said)
    name, figures, state = (
        next(across for height, across, said in seen if height == line and part in said)
        for part in ("בנק", "(50", "Open")
    )
    assert name < figures < state
