"""Words as search compares them, in scripts with spaces and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ledger.words import TERMS_MAX, fold, holding_text, parse, whole


def finds(typed: str, text: str) -> bool:
    """As the database does it: pieces of folded text."""
    query, folded = parse(typed), fold(text)
    return all(any(piece in folded for piece in pieces) for pieces in query.wanted) and not any(
        piece in folded for piece in query.unwanted
    )


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("guidance", "Guidance was raised."),
        ("guid", "Guidance was raised."),
        ("GUIDANCE raised", "Guidance was raised."),
        ('"was raised"', "Guidance was raised."),
        ("raised guidance", "Guidance was raised."),
        ("guidance -cut", "Guidance was raised."),
        ("cut OR raised", "Guidance was raised."),
        ("5.1bn", "Sales of $5.1bn"),
        ("$5", "Sales of $5.1bn"),
        ("café", "The cafe\u0301 chain"),
        ("straße", "STRASSE"),
        ("\uff21\uff22\uff23", "abc corp"),
        ("don't", "They don\u2019t hedge"),
        ("利益", "営業利益率は改善"),
        ("生成AI", "新しい生成AI半導体"),
        ("AI半導体", "新しい生成AI半導体"),
        ("ｶﾀｶﾅ", "新カタカナ語"),
        ("กำไร", "บริษัทมีกำไรเพิ่มขึ้น"),
        ("매출", "총매출이 늘었다"),
        ("выручка", "Выручка выросла"),
        ("मार्जिन", "मार्जिन बढ़ा"),
        ("ارتفاع", "كان هناك ارتفاع في"),
        ('"unclosed phrase', "an unclosed phrase here"),
    ],
)
def test_what_is_typed_is_found(typed: str, text: str) -> None:
    assert finds(typed, text)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("cut", "The order was executed."),
        ('"was raise"', "Guidance was raised."),
        ("guidance -raised", "Guidance was raised."),
        ("cut OR lowered", "Guidance was raised."),
        ("利率", "営業利益率は改善"),
        ("€5", "Sales of $5.1bn"),
        ("100", "Up by 1.00"),
    ],
)
def test_what_is_not_there_is_not_found(typed: str, text: str) -> None:
    assert not finds(typed, text)


@pytest.mark.parametrize("typed", ["", " ", "%", "_ \\", "-", '""', '"', "OR", "\u202e\x00"])
def test_where_no_word_is_typed_nothing_is_wanted(typed: str) -> None:
    assert (parse(typed).wanted, parse(typed).unwanted) == ((), ())


@given(st.text(max_size=200))
def test_any_text_is_a_query_of_bounded_size_that_finds_itself_in_parts(typed: str) -> None:
    query = parse(typed)
    assert sum(map(len, query.wanted)) + len(query.unwanted) <= TERMS_MAX
    folded = fold(typed)
    assert all(piece in folded for pieces in query.wanted for piece in pieces)
    assert fold(folded) == folded


@pytest.mark.parametrize(
    ("asked", "is_meant"),
    [
        ("acme", True),
        ("ACME Corporation", True),
        ("XNYS:ACME", True),
        ("h-1", True),
        ("road runner", True),
        ("ac", False),
        ("corporation acme", False),
        ("トヨタ", True),
        ("ヨタ自動", True),
    ],
)
def test_a_holding_goes_by_whole_words_of_one_of_its_names(asked: str, is_meant: bool) -> None:
    names = holding_text(
        "H-1", "Acme Corporation", "ACME", "XNYS", ("The Road Runner", "トヨタ自動車")
    )
    assert (whole(asked) in names) is is_meant
