"""Which characters are refused or unseen, and how supplied text is quoted back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.characters import control_character, is_invisible, pointer_token, quoted


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a\x00", "character 2 (U+0000)"),
        ("\x7f", "character 1 (U+007F)"),
        ("ab\n", "character 3 (U+000A)"),
        ("\u2028", "character 1 (U+2028)"),
        ("\ud800", "character 1 (U+D800)"),
        ("x\u202ey\u202e", "character 2 (U+202E)"),
        ("\u2066", "character 1 (U+2066)"),
    ],
)
def test_the_first_control_character_is_named_with_its_place(text: str, named: str) -> None:
    assert control_character(text) == f"{named} is a control character"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Société Générale",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "株式会社",
        "👩\u200d💻",
    ],
)
def test_every_script_is_accepted_with_its_joiners(text: str) -> None:
    assert control_character(text) is None


def test_what_is_allowed_is_passed_over_and_nothing_else() -> None:
    assert control_character("a\n\tb", allowed="\n\t") is None
    found = control_character("a\nb\x1b", allowed="\n\t")
    assert found == "character 4 (U+001B) is a control character"


@pytest.mark.parametrize("character", "\x00\x1f\xad\u034f\u200b\u202e\u3164\ufe0f\ufeff\U000e0100")
def test_what_is_drawn_as_nothing_is_invisible(character: str) -> None:
    assert is_invisible(character)


@pytest.mark.parametrize("character", " a~é日👍")
def test_what_is_drawn_is_not_invisible(character: str) -> None:
    assert not is_invisible(character)


@given(st.text())
def test_a_quoted_value_is_short_and_printable(text: str) -> None:
    assert quoted(text).isprintable()
    assert len(quoted(text)) <= 43
    assert len(text) > 40 or len(quoted(text)) == len(text) + 2


def test_a_name_in_a_pointer_is_escaped() -> None:
    assert pointer_token("a/b~c\n") == "a~1b~0c�"
    assert pointer_token("x" * 41) == "x" * 40 + "…"
