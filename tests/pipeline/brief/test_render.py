"""The three formats: the same bytes for the same rows, and nothing in them but text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from html.parser import HTMLParser

import jsonschema
import pytest
from markdown_it import MarkdownIt

from pipeline.brief.document import Brief
from pipeline.brief.render_html import to_html, to_html_body
from pipeline.brief.render_json import sha256, to_json
from pipeline.brief.render_markdown import to_markdown
from pipeline.brief.visible import visible
from pipeline.records import Dossier, Gap, JobState, Likeness
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile
from tests.pipeline.brief.factories import assemble
from tests.pipeline.brief.schema import SCHEMA

VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
JPEG = b"\xff\xd8\xff\xe0picture"
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "div",
    "header",
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "ol",
    "svg",
    "path",
    "text",
    "bdi",
    "section",
    "ul",
    "li",
    "dl",
    "dt",
    "dd",
    "span",
    "nav",
    "main",
    "article",
    "br",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "figure",
    "img",
    "figcaption",
    "blockquote",
    "code",
    "footer",
}
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "href",
    "id",
    "aria-labelledby",
    "aria-label",
    "role",
    "dir",
    "src",
    "width",
    "height",
    "alt",
    "scope",
    "xmlns",
    "fill",
    "font-family",
    "font-size",
    "text-anchor",
    "viewbox",
    "preserveaspectratio",
    "x",
    "y",
    "dx",
    "d",
}


def html(brief: Brief, recording_href: str | None = "r.mp4") -> str:
    return to_html(brief, recording_href=recording_href, frame_bytes=lambda _: JPEG)


def markdown(brief: Brief, recording_href: str | None = "r.mp4") -> str:
    return to_markdown(
        brief, recording_href=recording_href, frame_href=lambda name: f"frames/{name}.jpg"
    )


def with_frame() -> Dossier:
    origin = make.origin(frames=(make.frame(),))
    return make.dossier(
        findings=(make.finding(origin=origin),),
        evidence=(make.evidence(),),
    )


class Page(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]


# --- the same bytes ----------------------------------------------------------------------------


def test_the_same_rows_give_the_same_bytes_whatever_the_order_of_mappings() -> None:
    base = with_frame()
    epoch = base.epochs[0]
    settings = dict(epoch.engine.settings)
    shuffled = replace(
        base,
        epochs=(
            replace(
                epoch,
                engine=replace(epoch.engine, settings=dict(reversed(settings.items()))),
            ),
        ),
    )
    for render in (to_json, html, markdown):
        first = render(assemble(base, release="1"))
        assert first == render(assemble(shuffled, release="1"))


def test_weights_that_are_equal_numbers_give_the_same_bytes() -> None:
    def of(text: str) -> bytes:
        holdings = (make.holding("h1", weight_pct=Decimal(text)),)
        return to_json(assemble(make.dossier(holdings=holdings), release="1"))

    assert of("12.5") == of("12.500000") == of("1.25E+1")


def test_the_digest_is_that_of_the_json_without_it() -> None:
    brief = assemble(with_frame(), release="1")
    written = to_json(brief)
    document = json.loads(written)
    claimed = document.pop("sha256")
    again = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    assert claimed == hashlib.sha256(again).hexdigest() == sha256(brief)
    assert (
        written == json.dumps(json.loads(written), sort_keys=True, separators=(",", ":")).encode()
    )
    assert claimed in html(brief)
    assert claimed in markdown(brief)


def test_another_release_is_another_brief() -> None:
    assert sha256(assemble(make.dossier(), release="1")) != sha256(
        assemble(make.dossier(), release="2")
    )


# --- JSON --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", hostile.CORPUS)
def test_the_json_keeps_every_character_and_fits_its_schema(text: str) -> None:
    written = to_json(hostile.brief(text))
    assert all(0x20 <= byte < 0x7F for byte in written)
    document = json.loads(written)
    VALIDATOR.validate(document)
    assert document["findings"][0]["observed"] == text
    assert document["findings"][0]["notes"][0]["author"] == text
    assert document["changes"][0]["title"] == text


def test_the_json_has_times_as_milliseconds_and_decimals_as_text() -> None:
    document = json.loads(to_json(assemble(with_frame(), release="1")))
    source = document["findings"][0]["source"]
    assert source["generated_in"] == {
        "start_ms": 8000,
        "end_ms": 9000,
        "text": "0:08–0:09",
    }
    assert document["findings"][0]["holdings"][0]["weight_pct"] == "50"
    settings = document["provenance"]["epochs"][0]["settings"]
    assert settings == [
        {"name": "sampling", "value": True},
        {"name": "temperature", "value": "0.7"},
        {"name": "window", "value": 8000},
    ]


def test_a_number_with_a_fraction_is_decimal_text_or_refused() -> None:
    made = assemble(with_frame(), release="1")
    wrong = replace(made, header=replace(made.header, holding_count=1.5))
    with pytest.raises(TypeError, match="float"):
        to_json(wrong)


def test_a_stored_time_without_a_zone_is_refused() -> None:
    naive = make.dossier(created_at=make.dossier().created_at.replace(tzinfo=None))
    with pytest.raises(ValueError, match="zone"):
        assemble(naive, release="1")


# --- HTML --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", hostile.CORPUS)
def test_hostile_text_stays_text_in_html(text: str) -> None:
    page = Page(html(hostile.brief(text), recording_href=text or "x"))
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    for address in page.links():
        assert address.startswith("#") or "#t=" in address
        assert not re.match(r"\s*(javascript|data|vbscript):", address, re.IGNORECASE)
    assert visible(text) in "".join(page.text)
    plain = "".join(page.text)
    assert visible(plain) == plain


def test_the_html_is_whole_in_itself() -> None:
    written = html(assemble(with_frame(), release="1"))
    page = Page(written)
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    encoded = base64.b64encode(JPEG).decode()
    assert [picture["src"] for picture in pictures] == [f"data:image/jpeg;base64,{encoded}"]
    assert pictures[0]["alt"] == "Picture from the recording at 0:08"
    assert "url(" not in written
    assert "@import" not in written
    assert not {"script", "link", "iframe", "object", "form"} & {tag for tag, _ in page.tags}
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_html_has_one_h1_unique_ids_and_only_links_that_lead_somewhere() -> None:
    page = Page(html(assemble(with_frame(), release="1")))
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert [tag for tag, _ in page.tags].count("main") == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    inside = [address[1:] for address in page.links() if address.startswith("#")]
    assert inside
    assert set(inside) <= set(ids)
    named = {a["aria-labelledby"] for _, a in page.tags if a.get("aria-labelledby")}
    assert named <= set(ids)


def test_play_links_are_links_where_there_is_a_recording_and_text_where_not() -> None:
    brief = assemble(with_frame(), release="1")
    assert "../a%20b.mp4#t=3,9" in Page(html(brief, "../a b.mp4")).links()
    assert "[Play 0:03–0:09](../a%20b.mp4#t=3,9)" in markdown(brief, "../a b.mp4")
    assert not [address for address in Page(html(brief, None)).links() if "t=" in address]
    assert "#t=3,9" in html(brief, None)
    assert "`#t=3,9`" in markdown(brief, None)


def late(origin_ms: int) -> Brief:
    recording = replace(make.dossier().recording, probe=make.probe(origin_ms=origin_ms))
    return assemble(replace(with_frame(), recording=recording), release="1")


@pytest.mark.parametrize(
    ("origin_ms", "finding", "evidence"),
    [
        # Said from 8 to 9 s and from 2 to 3 s; played from 5 s before, never from before 0.
        (0, "t=3,9", "t=0,3"),
        (5000, "t=8,14", "t=5,8"),
        (4979, "t=7.979,13.979", "t=4.979,7.979"),
        (3_600_500, "t=3603.5,3609.5", "t=3600.5,3603.5"),
        # No player begins before its own zero.
        (-250, "t=3,9", "t=0,3"),
    ],
)
def test_links_add_the_start_of_a_file_that_starts_late_and_the_json_keeps_source_times(
    origin_ms: int, finding: str, evidence: str
) -> None:
    brief = late(origin_ms)
    links = [link for link in Page(html(brief)).links() if "t=" in link]
    assert links == [f"r.mp4#{finding}", f"r.mp4#{evidence}"]
    assert f"[Play 0:03–0:09](r.mp4#{finding})" in markdown(brief)
    assert f"[Play 0:00–0:03](r.mp4#{evidence})" in markdown(brief)
    assert f"<code>#{finding}</code>" in html(brief, None)
    assert f"`#{finding}`" in markdown(brief, None)
    document = json.loads(to_json(brief))
    assert document["findings"][0]["source"]["fragment"] == "t=3,9"
    assert document["evidence"][0]["source"]["fragment"] == "t=0,3"


def test_links_of_a_recording_that_was_never_probed_are_source_times() -> None:
    recording = replace(make.dossier().recording, probe=None)
    brief = assemble(replace(with_frame(), recording=recording), release="1")
    assert "r.mp4#t=3,9" in Page(html(brief)).links()


def test_the_body_alone_is_that_of_the_document_with_its_pictures_by_address() -> None:
    brief = assemble(with_frame(), release="1")
    body = to_html_body(brief, recording_href="r.mp4", picture=lambda name: f"/frames/{name}?a&b")
    sha256 = make.frame().sha256
    by_address = f'<img loading="lazy" src="/frames/{sha256}?a&amp;b"'
    assert by_address in body
    embedded = f'<img src="data:image/jpeg;base64,{base64.b64encode(JPEG).decode()}"'
    assert f"{str(body).replace(by_address, embedded)}</body>\n</html>\n" in html(brief)
    assert body.startswith('<div class="page">')


def test_what_was_heard_and_not_seen_is_marked() -> None:
    heard = assemble(make.dossier(findings=(make.finding(is_audio_evidence=True),)), release="1")
    seen = assemble(make.dossier(findings=(make.finding(),)), release="1")
    for render in (html, markdown):
        assert "heard, not seen" in render(heard).lower()
        assert "heard, not seen" not in render(seen).lower()


def test_the_sections_come_in_the_order_they_are_read() -> None:
    brief = assemble(with_frame(), release="1")
    titles = ["Bottom line", "Exposure", "Findings", "Timeline", "Coverage", "Changes"]
    titles += ["Method and limits", "Evidence not in findings", "Provenance"]
    found = re.findall(r"<h2[^>]*>([^<]+)</h2>", html(brief))
    assert found == ["Complete", *titles]
    assert re.findall(r"^## (.+)$", markdown(brief), re.MULTILINE) == ["Status", *titles]


# --- Markdown ----------------------------------------------------------------------------------


def shape(text: str) -> list[str]:
    """Blocks, links and pictures of a whole Markdown brief."""
    tokens = MarkdownIt("gfm-like").parse(markdown(hostile.brief(text)))
    marks = {"link_open", "image", "html_inline", "em_open", "strong_open", "s_open"}
    return [
        kind
        for token in tokens
        for kind in (
            token.type,
            *(child.type for child in token.children or [] if child.type in marks),
        )
    ]


@lru_cache(maxsize=1)
def ordinary_shape() -> list[str]:
    return shape("ordinary")


@pytest.mark.parametrize("text", [text for text in hostile.CORPUS if text.strip()])
def test_hostile_text_changes_nothing_of_the_markdowns_shape(text: str) -> None:
    assert shape(text) == ordinary_shape()


# --- size --------------------------------------------------------------------------------------


def test_twelve_hours_stay_small_and_quick() -> None:
    seconds = range(12 * 3600)
    units = tuple(
        make.unit(
            second,
            sequence=second,
            frame_ms=None if second % 2 else second * 1000,
            rms_dbfs=None if second % 3 else -20.0,
        )
        for second in seconds
        if not 1000 <= second < 2000
    )
    epoch = make.epoch(
        gaps=(Gap(start_ms=1_000_000, end_ms=2_000_000),),
        media_end=make.media_end(source_end_ms=43_200_000),
    )
    findings = tuple(
        make.finding(
            turn=turn,
            evidence=f"Slide {turn} shows orders up 12%.",
            origin=make.origin(turn * 40_000, turn * 40_000 + 4_000),
        )
        for turn in range(1000)
    )
    dossier = make.dossier(units=units, epochs=(epoch,), findings=findings)
    began = time.process_time()
    brief = assemble(dossier, release="1", likeness=lambda *_: Likeness.OTHER)
    written = to_json(brief)
    assert time.process_time() - began < 20
    assert len(written) < 1_500_000
    assert brief.coverage.time[0].duration_ms == 42_200_000
    assert [span.text for span in brief.coverage.time[0].spans.listed] == [
        "0:00–16:40",
        "33:20–12:00:00",
    ]
    began = time.process_time()
    assert len(html(brief)) < 4_000_000
    assert len(markdown(brief)) < 2_000_000
    assert time.process_time() - began < 40


def test_no_finding_and_no_evidence_are_said_in_words() -> None:
    brief = assemble(make.dossier(state=JobState.CANCELED), release="1")
    for render in (html, markdown):
        text = render(brief)
        assert "completed no finding in the seconds that were analysed" in text
        assert "No finding is not evidence of absence." in text
        assert "Looked for in 10 s, 100.0\u00a0% of the recording" in text
