"""Every form of a document says the same things in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from pipeline.brief.flow import Bullets, Drawing, Facts, Heading, Paragraph, Pictures, Table
from pipeline.brief.flow_sections import blocks
from pipeline.brief.picture_choice import frames_shown, stills
from pipeline.brief.render_html import to_html
from pipeline.brief.render_markdown import to_markdown
from pipeline.records import JobState, TextMark
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble

FINDING = make.finding(
    evidence="ObservedText.",
    implication="ImpliedText.",
    uncertainty="UncertainText.",
    verification="VerifyText.",
    marks=(TextMark(code="numbers", count=1),),
    origin=make.origin(8_000, 9_000, frames=(make.frame(),)),
)
HELD_BACK = make.evidence("", marks=(TextMark(code="prompt_echo", count=1),))
BRIEF = assemble(
    replace(make.dossier(findings=(FINDING,), evidence=(HELD_BACK,)), state=JobState.FAILED)
)
HEAD = (BRIEF.header.recording_sha256, "Partial: 0:10", BRIEF.bottom_line.text)
PARTS = (
    "ObservedText.",
    "Play 0:",
    "Picture from the recording",
    "ImpliedText.",
    "UncertainText.",
    "VerifyText.",
    "Numbers are as heard or seen.",
    "the engine could remember from",
)


def html() -> str:
    return to_html(BRIEF, recording_href="r.mp4", frame_bytes=lambda _: b"jpeg")


def markdown() -> str:
    made = to_markdown(BRIEF, recording_href="r.mp4", frame_href=lambda name: f"{name}.jpg")
    return re.sub(r"\\(.)", r"\1", made)


def pages() -> str:
    """What PDF and DOCX lay out."""
    return "\n".join(
        said for block in blocks(BRIEF, recording_href="r.mp4") for said in words(block)
    )


def words(block: object) -> Iterator[str]:
    match block:
        case Heading() | Paragraph():
            yield "".join(run.text for run in block.runs)
        case Bullets():
            yield from ("".join(run.text for run in item) for item in block.items)
        case Facts():
            yield from ("".join(run.text for run in value) for _, value in block.rows)
        case Pictures():
            yield "Picture from the recording"
        case Table() | Drawing():
            return


def places(text: str, parts: Sequence[str]) -> list[int]:
    return [text.index(part) for part in parts]


@pytest.mark.parametrize("form", [html, markdown, pages])
def test_the_header_comes_before_the_status_and_the_bottom_line(
    form: Callable[[], str],
) -> None:
    found = places(form(), HEAD)
    assert found == sorted(found)


@pytest.mark.parametrize("form", [html, markdown, pages])
def test_a_finding_shows_its_evidence_before_what_it_may_mean(form: Callable[[], str]) -> None:
    text = form()
    found = places(text[text.rindex("ObservedText.") :], PARTS)
    assert found == sorted(found)


@pytest.mark.parametrize("form", [html, markdown, pages])
def test_a_text_that_was_held_back_whole_is_told_in_words(
    form: Callable[[], str],
) -> None:
    told = "Nothing of this text is shown: all of it was held back."
    found = places(form(), ("Evidence not in findings", told, "Held back, since it repeats"))
    assert found == sorted(found)


def test_a_slide_that_stands_is_one_picture_with_all_its_moments() -> None:
    frames = tuple(make.frame(name, source_ms=ms) for name, ms in (("b", 9_000), ("a", 8_000)))
    again = make.frame("b", source_ms=7_000)
    finding = make.finding(origin=make.origin(7_000, 9_500, frames=(*frames, again)))
    entry = assemble(make.dossier(findings=(finding,))).findings[0]
    assert [still.text for still in stills(entry.source.frames)] == ["0:07, 0:09", "0:08"]
    assert frames_shown((entry,)) == {"F1": 2}
