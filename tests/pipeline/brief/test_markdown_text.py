"""Escaped text renders as exactly that text, in a real parser and with bare links switched on."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pipeline.brief.markdown_text import inline, lines
from pipeline.brief.visible import visible
from tests.pipeline.brief.hostile import CORPUS

PARSERS = (
    MarkdownIt("commonmark"),
    MarkdownIt("gfm-like"),
)
HARMLESS = {"text", "text_special", "code_inline", "softbreak", "hardbreak"}

texts = st.one_of(
    st.text(),
    st.text(alphabet="ab1 \n\t\\`*_{}[]()<>#+-.!|~&$^:=@/\"';,?%w"),
    st.lists(st.sampled_from(CORPUS), max_size=4).map("\n".join),
    st.lists(st.sampled_from(CORPUS), max_size=4).map("".join),
)


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def content(tokens: list[Token]) -> str:
    return "".join(
        " " if token.type in {"softbreak", "hardbreak"} else token.content for token in tokens
    )


def inline_tokens(markdown: str, parser: MarkdownIt, *, blocks: list[str]) -> list[Token]:
    """The inline tokens of a document that must consist of exactly these blocks."""
    tokens = parser.parse(markdown)
    assert [token.type for token in tokens] == blocks
    children = next((token.children for token in tokens if token.type == "inline"), []) or []
    assert {token.type for token in children} <= HARMLESS
    return children


@settings(max_examples=200, deadline=None)
@given(texts)
def test_lines_are_one_paragraph_of_the_same_words(text: str) -> None:
    for parser in PARSERS:
        written = lines(text)
        blocks = ["paragraph_open", "inline", "paragraph_close"] if written else []
        children = inline_tokens("\\\n".join(written), parser, blocks=blocks)
        assert words(content(children)) == words(visible(text))


@settings(max_examples=200, deadline=None)
@given(texts)
def test_one_line_fits_a_heading_a_list_and_a_table_cell(text: str) -> None:
    written, expected = inline(text), words(visible(text))
    assert "\n" not in written
    for parser in PARSERS:
        heading = ["heading_open", "inline", "heading_close"]
        assert words(content(inline_tokens(f"# {written}", parser, blocks=heading))) == expected
        item = ["bullet_list_open", "list_item_open"]
        item += ["paragraph_open", "inline", "paragraph_close"]
        item += ["list_item_close", "bullet_list_close"]
        children = inline_tokens(f"- x {written}", parser, blocks=item)
        assert words(content(children)) == words(f"x {expected}")
    table = PARSERS[1].parse(f"| a | b |\n| --- | --- |\n| {written} | end |")
    cells = [token for token in table if token.type == "inline"]
    assert len(cells) == 4
    assert words(content(cells[2].children or [])) == expected
    assert {token.type for cell in cells for token in cell.children or []} <= HARMLESS


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_harmless_on_its_own(text: str) -> None:
    for parser in PARSERS:
        html = parser.render("\\\n".join(lines(text)))
        assert set(re.findall(r"<(/?[a-z0-9]+)", html)) <= {"p", "/p", "br", "code", "/code"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://evil.example/a_b.", "see `https://evil.example/a_b.`"),
        ("//host/x", "`//host/x`"),
        ("WWW.evil.example", "`WWW.evil.example`"),
        ("ask a@b.example or @c", "ask `a@b.example` or `@c`"),
        ("mailto:x", "`mailto:x`"),
        ("2 @ 3", "2 @ 3"),
        ("a`http://b`c|http://d", "a\\``http://b`\\`c\\|`http://d`"),
    ],
)
def test_what_a_renderer_could_link_by_itself_is_code(text: str, expected: str) -> None:
    assert inline(text) == expected


def test_ordinary_prose_stays_readable() -> None:
    assert inline("At 14:00 orders rose 12.5% (to 5.1bn), says Tesla, Inc.; margins fell.") == (
        "At 14:00 orders rose 12.5% (to 5.1bn), says Tesla, Inc.; margins fell."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u202eb", "a[U+202E]b"),
        ("\x1b\x00", "[U+001B][U+0000]"),
        ("\ud800", "[U+D800]"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
        ("e\u0301\u0323\u0301\u0301\u0301", "e\u0301\u0323\u0301\u0301[U+0301]"),
        ("e" + "\u0301" * 80, "e" + "\u0301" * 4 + "[U+0301×76]"),
        ("é ü 株 مرحبا 🙂", "é ü 株 مرحبا 🙂"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, expected: str) -> None:
    assert visible(text) == expected
