"""The brief's HTML in a real browser: nothing runs, nothing is fetched, and it fits a phone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page
from pypdf import PdfReader

from pipeline.brief.document import Brief
from pipeline.brief.render_html import to_html
from pipeline.brief.visible import visible
from pipeline.records import NoteAction
from tests.browser import chromium
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile
from tests.pipeline.brief.factories import assemble
from tests.pipeline.brief.test_pdf import SECTIONS
from tests.units import picture

WITNESS = """
    window.witnessed = [];
    for (const name of ['alert', 'confirm', 'prompt', 'open', 'fetch'])
        window[name] = () => window.witnessed.push(name);
"""
SCRIPTS = (
    "<script>alert(1)</script>",
    "</style></title></svg><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)' autofocus onfocus='alert(1)",
    "</text><foreignObject><iframe srcdoc='<script>parent.alert(1)</script>'>",
    '<a href="javascript:alert(1)">x</a><form action=javascript:alert(1)>',
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<details open ontoggle=alert(1)>",
    "--><!--<script>alert(1)//-->",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def html(brief: Brief, *, is_guarded: bool = True) -> str:
    jpeg = picture(120).jpeg
    written = to_html(brief, recording_href="r.mp4", frame_bytes=lambda _: jpeg)
    # Without its policy the document must be as harmless: escaping is not left to the browser.
    return written if is_guarded else written.replace("Content-Security-Policy", "x-none")


def show(page: Page, document: str) -> list[str]:
    """The page with that document, and every address that it asked for."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(WITNESS)
    page.route(
        "http://brief.test/**",
        lambda route: route.fulfill(body=document, content_type="text/html; charset=utf-8"),
    )
    page.goto("http://brief.test/")
    return [url for url in asked if not url.startswith("data:")]


def test_the_witness_sees_a_script_that_runs(page: Page) -> None:
    show(page, f"<!DOCTYPE html><body>{SCRIPTS[0]}")
    assert page.evaluate("window.witnessed") == ["alert"]


@pytest.mark.parametrize(
    ("is_guarded", "texts"),
    [
        (True, SCRIPTS[:2]),
        (False, SCRIPTS),
        (False, tuple("\n".join(hostile.CORPUS[at : at + 8]) for at in range(0, 50, 8))),
    ],
)
def test_no_hostile_text_runs_or_fetches_anything(
    page: Page, is_guarded: bool, texts: tuple[str, ...]
) -> None:
    for text in texts:
        asked = show(page, html(hostile.brief(text), is_guarded=is_guarded))
        page.mouse.move(200, 300)
        assert page.evaluate("window.witnessed") == [], text
        assert page.evaluate("document.querySelectorAll('script, iframe, form').length") == 0
        assert set(asked) == {"http://brief.test/"}, text
        shown = page.evaluate("document.body.textContent")
        assert visible(text).strip() in shown, text


def test_the_page_is_as_wide_as_a_phone_and_the_longest_word_breaks(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for brief in (assemble(make.full()), hostile.brief("W" * 500), hostile.brief("株" * 300)):
        show(page, html(brief))
        root = "document.documentElement"
        assert page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") <= 0


def test_every_part_has_a_name_that_a_screen_reader_says(page: Page) -> None:
    past = make.past(make.past_finding(observed="Orders fell."))
    show(page, html(assemble(make.full(), previous=past)))
    named = ["Complete", *SECTIONS[1:]]
    for name in named:
        assert page.get_by_role("region", name=name, exact=True).count() == 1, name
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation", name="Contents").count() == 1
    assert page.get_by_role("img", name="Timeline of the recording").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for table in page.get_by_role("table").all():
        assert table.locator("caption").count() == 1
        assert table.get_by_role("columnheader").count() > 1


CONTRAST = """() => {
    const linear = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
    const rgb = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
    const ground = element => {
        for (let at = element; at; at = at.parentElement) {
            const found = rgb(getComputedStyle(at).backgroundColor);
            if (found.length === 3 || found[3] > 0) return found;
        }
        return [255, 255, 255];
    };
    const worst = {ratio: 99, text: ''};
    for (const element of document.querySelectorAll('body *')) {
        const said = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!said || element.classList.contains('number')) continue;
        const style = getComputedStyle(element);
        const ink = element instanceof SVGElement ? style.fill : style.color;
        const pair = [light(rgb(ink)), light(ground(element))].sort((a, b) => b - a);
        const ratio = (pair[0] + .05) / (pair[1] + .05);
        if (ratio < worst.ratio) Object.assign(worst, {ratio, text: element.textContent});
    }
    return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_their_ground(page: Page, scheme: str) -> None:
    """4.5 to 1: WCAG 2.2, success criterion 1.4.3."""
    page.emulate_media(color_scheme=scheme)
    notes = (make.note(NoteAction.REJECT),)
    show(page, html(assemble(replace(make.full(), notes=notes))))
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


def test_on_paper_it_is_a4_and_links_show_where_they_lead(page: Page) -> None:
    show(page, html(assemble(make.full())))
    page.emulate_media(media="print")
    shown = page.evaluate("getComputedStyle(document.querySelector('a.play'), '::after').content")
    assert "r.mp4#t=" in shown
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    pdf = PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    assert len(pdf.pages) >= 2
    # A4 is 210 by 297 mm; a point is 1/72 of 25.4 mm.
    width, height = (float(points) * 25.4 / 72 for points in pdf.pages[0].mediabox[2:])
    assert (round(width), round(height)) == (210, 297)
