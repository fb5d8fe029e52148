"""Two findings are one only where wording is close and every material term is equal."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.findings.duplicates import likeness
from pipeline.findings.statements import read_statement
from pipeline.records import Claim, Likeness
from tests.pipeline.findings.calls import calls_in
from tests.pipeline.findings.corpus.loader import pairs


def claim(evidence: str, implication: str = "Margins may rise.", *ids: str) -> Claim:
    return Claim(holding_ids=ids or ("A",), evidence=evidence, implication=implication)


def between(a: str, b: str) -> Likeness:
    return likeness(claim(a), claim(b))


# --- figures


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("$5.1bn", "5100000000", "USD"),
        ("$5.1 billion", "5100000000", "USD"),
        ("5,100 million USD", "5100000000", "USD"),
        ("US$5.1B", "5100000000", "USD"),
        ("5.1 billion dollars", "5100000000", "USD"),
        ("five billion dollars", "5000000000", "USD"),
        ("half a billion dollars", "500000000", "USD"),
        ("51億ドル", "5100000000", "USD"),
        ("5億1000万円", "510000000", "JPY"),
        ("5,1 Mrd. Euro", "5100000000", "EUR"),
        ("5.100 Mio. Euro", "5100000000", "EUR"),
        ("5,1 млрд долларов", "5100000000", "USD"),
        ("5 100 millions d'euros", "5100000000", ""),
        ("5.100 millones de dólares", "5100000000", ""),
        ("£12m", "12000000", "GBP"),
        ("-$5m", "-5000000", "USD"),
        ("$(5)m", "-5000000", "USD"),
        ("minus 3 percent", "-3", "%"),
        ("−3%", "-3", "%"),
        ("+3%", "3", "%"),
        ("three percent", "3", "%"),
        ("twenty-five percent", "25", "%"),
        ("three point five percent", "3.5", "%"),
        ("\u0665\u066b\u0665\u066a", "5.5", "%"),
        ("百分之二十八", "28", "%"),
        ("50 bps", "0.5", "pp"),
        ("0.5 percentage points", "0.5", "pp"),
        ("2.1x", "2.1", "x"),
        ("twofold", "2", "x"),
        ("1,234,567 shares", "1234567", "share"),
        ("1.234.567", "1234567", ""),
        ("0.5", "0.5", ""),
        (".5", "0.5", ""),
        ("5 GW", "5", "GW"),
        ("25 cents", "0.25", "USD"),
    ],
)
def test_a_figure_is_read_as_it_is_meant(text: str, value: str, unit: str) -> None:
    [quantity] = read_statement(text).quantities
    assert (quantity.value, quantity.unit or unit) == (value, unit or quantity.unit)


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("in Q3", ("Q3",)),
        ("in the third quarter", ("Q3",)),
        ("3Q25", ("2025", "Q3")),
        ("Q3 2025", ("2025", "Q3")),
        ("2025 Q3", ("2025", "Q3")),
        ("Q3 FY25", ("FY2025", "Q3")),
        ("fiscal year 2025", ("FY2025",)),
        ("on March 5, 2026", ("2026-03-05",)),
        ("on 5 March 2026", ("2026-03-05",)),
        ("2026年3月5日", ("2026-03-05",)),
        ("in May 2026", ("2026-05",)),
        ("Prices may rise", ()),
        ("next quarter", ("next quarter",)),
        ("this quarter", ("this quarter",)),
        ("on Tuesday", ("weekday 2",)),
        ("第三季度", ("Q3",)),
        ("第3四半期", ("Q3",)),
        ("im dritten Quartal", ("Q3",)),
        ("au troisième trimestre", ("Q3",)),
        ("в третьем квартале", ("Q3",)),
        ("في الربع الثالث", ("Q3",)),
        ("στο τρίτο τρίμηνο", ("Q3",)),
        ("year on year", ("yoy",)),
        ("同比", ("yoy",)),
        ("second half", ("H2",)),
    ],
)
def test_a_period_has_one_spelling(text: str, periods: tuple[str, ...]) -> None:
    statement = read_statement(text)
    assert statement.periods == periods
    assert statement.quantities == ()


# --- any two claims


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=40))
@settings(max_examples=80)
def test_any_two_claims_have_one_answer_whichever_comes_first(a: str, b: str, why: str) -> None:
    first, second = claim(a, why), claim(b, why)
    assert likeness(first, second) is likeness(second, first)
    assert likeness(first, first) is Likeness.SAME
    assert likeness(first, claim(a, why, "B")) is Likeness.OTHER


GRAINS = (
    "5 5.1 -3 % $ bn million bps Q3 FY25 March 5, 2026 three double half a third of to from by ( ) "
    "- 億 万 百分之 五 第 季度 年 月 not un raised cut Apple H100 ' . , and may 1Q25 ½ \u0665"
)
TERMS = st.lists(st.sampled_from(GRAINS.split()), max_size=12).flatmap(
    lambda parts: st.sampled_from([" ".join(parts), "".join(parts)])
)


@given(TERMS, TERMS)
@settings(max_examples=80)
def test_any_run_of_terms_is_read(a: str, b: str) -> None:
    assert between(a, b) is between(b, a)


def test_the_pairs_answer_alike_in_both_orders() -> None:
    for pair in pairs():
        first, second = pair.claims
        assert likeness(first, second) is likeness(second, first), pair.name


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_another_figure_is_never_the_same(a: int, b: int) -> None:
    texts = (f"Guidance was raised to ${a / 10} million." for a in (a, b))
    assert between(*texts) is (Likeness.SAME if a == b else Likeness.CHANGED)


def test_holdings_are_compared_without_their_order() -> None:
    one, other = (
        claim("Revenue rose.", "Good.", "A", "B"),
        claim("Revenue rose.", "Good.", "B", "A"),
    )
    assert likeness(one, other) is Likeness.SAME
    assert likeness(one, claim("Revenue rose.", "Good.", "A")) is Likeness.OTHER


def test_both_fields_must_be_close() -> None:
    one = claim("Revenue was $5bn.", "Margins may rise.")
    assert likeness(one, claim("Revenue was $5bn.", "A plant may be closed.")) is Likeness.OTHER
    assert likeness(one, claim("A phone was shown.", "Margins may rise.")) is Likeness.OTHER


def test_a_word_more_is_the_same_and_many_more_are_not() -> None:
    text = "The new phone on stage has a thinner frame and brighter glass"
    assert between(text + ".", text + " indeed.") is Likeness.SAME
    assert between(text + ".", text + " indeed.") is between(text + " indeed.", text + ".")
    assert between(text + ".", text + ", titanium edges, ceramic cover.") is Likeness.CHANGED


def test_each_kind_of_term_tells_two_claims_apart() -> None:
    text = "In Q3 the plant in Ohio did raise its output to 500 MW, and Intel will follow."
    for before, after in (
        ("Q3", "Q4"),
        ("Ohio", "Texas"),
        ("did", "did not"),
        ("raise", "cut"),
        ("500", "550"),
        ("MW", "GW"),
        ("to 500", "by 500"),
        ("will", "may"),
        ("output", "income"),
        ("follow", "follow if power is short"),
    ):
        assert between(text, text.replace(before, after)) is not Likeness.SAME, before
    assert between(text, text.replace("raise", "increase")) is Likeness.SAME


# --- how much work


@pytest.mark.parametrize(
    "grain",
    ["word ", "5%", "5 ", "five ", "Q3 ", "1,", "-", "增长", "not ", "A. ", "(", "from 5 to "],
)
def test_twice_the_text_takes_twice_the_work(grain: str) -> None:
    once, twice = (
        calls_in(partial(read_statement.__wrapped__, "Up. " + grain * count))
        for count in (300, 600)
    )
    assert twice < 2.5 * once + 2000


def test_two_claims_that_differ_are_told_apart_with_a_handful_of_calls() -> None:
    texts = [f"The {word} was shown on stage, and nothing else." for word in ("phone", "banknote")]
    one, other = (claim(text, f"{text} Perhaps.") for text in texts)
    likeness(one, other)
    far = claim("Applause.", "Nothing.")
    likeness(one, far)
    assert calls_in(partial(likeness, one, far)) < 10
