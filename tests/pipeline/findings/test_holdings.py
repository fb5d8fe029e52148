"""Holdings are matched whole and never by guess."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.holdings import HoldingsIndex, name_words, without_legal_suffix
from pipeline.records import Holding


def holding(
    key: str, name: str, ticker: str | None = None, exchange: str | None = None, *aliases: str
) -> Holding:
    return Holding(
        id=key,
        name=name,
        ticker=ticker,
        exchange=exchange,
        currency="USD",
        asset_type="equity",
        weight_pct=Decimal(1),
        aliases=aliases,
    )


PORTFOLIO = (
    holding("H1", "Tesla, Inc.", "TSLA", "NASDAQ"),
    holding("H2", "Apple Inc.", "AAPL", "NASDAQ", "Apple Computer"),
    holding("H3", "Johnson & Johnson", "JNJ", "NYSE"),
    holding("H4", "Allstate Corporation", "ALL", "NYSE"),
    holding("H5", "Gartner", "IT", "NYSE"),
    holding("H6", "Sea Limited", "SE", "NYSE"),
    holding("H7", "Acme Ltd", "ACM", "LSE"),
    holding("H8", "Acme Inc", "ACM", "NYSE"),
    holding("H9", "Alphabet Inc. Class A", "GOOGL", "NASDAQ"),
    holding("H10", "Alphabet Inc. Class C", "GOOG", "NASDAQ"),
    holding("H11", "JPMorgan Chase & Co.", "JPM", "NYSE"),
    holding("H12", "トヨタ自動車", "7203", "TSE", "Toyota"),
    holding("H13", "Berkshire Hathaway (Class B)", "BRK.B", None),
    holding("H14", "Barnes, Noble and Sons", None, None),
    holding("H15", "US dollar cash"),
    holding("H16", "McDonald's Corp", "MCD", "NYSE"),
)

Row = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]

TABLE: list[Row] = [
    ("H1", ("H1",), (), ()),
    ("h1", (), ("h1",), ()),
    ("TSLA", ("H1",), (), ()),
    ("tsla", (), ("tsla",), ()),
    ("TSLA.", ("H1",), (), ()),
    ("Tesla, Inc.", ("H1",), (), ()),
    ("Tesla", ("H1",), (), ()),
    ("TESLA INC", ("H1",), (), ()),
    ("Tesla, Inc. and Apple Inc.", ("H1", "H2"), (), ()),
    ("Apple, Tesla, Inc., H3", ("H2", "H1", "H3"), (), ()),
    ("Tesla, Inc. (TSLA), Apple", ("H1", "H2"), (), ()),
    ("Tesla (NASDAQ: TSLA); AAPL", ("H1", "H2"), (), ()),
    ("NASDAQ:TSLA", ("H1",), (), ()),
    ("nasdaq: TSLA", ("H1",), (), ()),
    ("NYSE:TSLA", (), (), ("NYSE:TSLA",)),
    ("Tesla (NYSE:TSLA)", (), (), ("Tesla (NYSE:TSLA)",)),
    ("NASDAQ:tsla", (), ("NASDAQ:tsla",), ()),
    ("Johnson & Johnson", ("H3",), (), ()),
    ("Johnson and Johnson", ("H3",), (), ()),
    ("Apple and Johnson and Johnson and TSLA", ("H2", "H3", "H1"), (), ()),
    ("Johnson", (), ("Johnson",), ()),
    ("Apple Hospitality REIT", (), ("Apple Hospitality REIT",), ()),
    ("Pineapple", (), ("Pineapple",), ()),
    ("Apple computer", ("H2",), (), ()),
    ("ALL", ("H4",), (), ()),
    ("All", (), ("All",), ()),
    ("all holdings", (), ("all holdings",), ()),
    ("IT", ("H5",), (), ()),
    ("Infosys (IT)", (), (), ("Infosys (IT)",)),
    ("Gartner (IT)", ("H5",), (), ()),
    ("Tesla, SE", ("H1", "H6"), (), ()),
    ("Sea", ("H6",), (), ()),
    ("Acme", (), (), ("Acme",)),
    ("Acme Ltd", ("H7",), (), ()),
    ("Acme, Inc.", ("H8",), (), ()),
    ("ACM", (), (), ("ACM",)),
    ("LSE:ACM", ("H7",), (), ()),
    ("Acme (LSE:ACM)", ("H7",), (), ()),
    ("Acme Inc (LSE:ACM)", (), (), ("Acme Inc (LSE:ACM)",)),
    ("Acme (ACM)", (), (), ("Acme (ACM)",)),
    ("Alphabet", (), ("Alphabet",), ()),
    ("Alphabet (GOOGL)", ("H9",), (), ()),
    ("Alphabet Inc. Class C", ("H10",), (), ()),
    ("Tesla (AAPL)", (), (), ("Tesla (AAPL)",)),
    ("Tesla (electric cars)", (), ("Tesla (electric cars)",), ()),
    ("JPMorgan Chase", ("H11",), (), ()),
    ("JPMorgan Chase & Co., Tesla", ("H11", "H1"), (), ()),
    ("トヨタ自動車、Tesla", ("H12", "H1"), (), ()),
    ("TSE:7203", ("H12",), (), ()),
    ("Ｔｅｓｌａ， Ｉｎｃ．", ("H1",), (), ()),  # noqa: RUF001
    ("Berkshire Hathaway (Class B)", ("H13",), (), ()),
    ("BRK.B", ("H13",), (), ()),
    ("NYSE:BRK.B", ("H13",), (), ()),
    ("Barnes, Noble and Sons", ("H14",), (), ()),
    ("Barnes, Noble", (), ("Barnes", "Noble"), ()),
    ("US Dollar Cash", ("H15",), (), ()),
    ("McDonald’s", ("H16",), (), ()),
    ('**Tesla**, "Apple"', ("H1", "H2"), (), ()),
    ("Tesla, Nvidia, Intel and Nvidia", ("H1",), ("Nvidia", "Intel"), ()),
    ("Tesla, Tesla, TSLA", ("H1",), (), ()),
    ("Foo, NYSE:JPM", ("H11",), ("Foo",), ()),
    ("Foo, Tesla (TSLA)", ("H1",), ("Foo",), ()),
    ("Apple\nHospitality", (), ("Apple Hospitality",), ()),
    ("Johnson &\nJohnson", ("H3",), (), ()),
    ("Apple Hospitality (AAPL)", (), (), ("Apple Hospitality (AAPL)",)),
    (" , ; and ", (), (), ()),
    ("", (), (), ()),
]


@pytest.mark.parametrize(("text", "ids", "unmatched", "ambiguous"), TABLE)
def test_a_field_names_these_holdings(
    text: str, ids: tuple[str, ...], unmatched: tuple[str, ...], ambiguous: tuple[str, ...]
) -> None:
    named = HoldingsIndex(PORTFOLIO).find(text)
    assert (named.holding_ids, named.unmatched, named.ambiguous) == (ids, unmatched, ambiguous)


def test_the_longest_supplied_name_comes_first() -> None:
    index = HoldingsIndex(
        [holding("1", "North, South"), holding("2", "South, East, West"), holding("3", "North")]
    )
    assert index.find("North, South, East, West").holding_ids == ("3", "2")


def test_an_item_that_is_one_holdings_id_and_anothers_ticker_is_ambiguous() -> None:
    index = HoldingsIndex([holding("F", "Ford Motor"), holding("2", "Foo", "F", "NYSE")])
    assert index.find("F").ambiguous == ("F",)
    assert index.find("Ford Motor Company, Foo (F)").holding_ids == ("F", "2")


def test_legal_forms_go_and_a_name_never_goes_with_them() -> None:
    assert without_legal_suffix(name_words("Acme Co., Ltd.")) == ("acme",)
    assert without_legal_suffix(name_words("Maersk A/S")) == ("maersk",)
    assert without_legal_suffix(name_words("Enel S.p.A.")) == ("enel",)
    assert without_legal_suffix(name_words("Grupo Alfa, S.A.B. de C.V.")) == ("grupo", "alfa")
    assert without_legal_suffix(name_words("Company Inc.")) == ("company",)


@given(st.text(max_size=120))
def test_any_field_is_read(text: str) -> None:
    HoldingsIndex(PORTFOLIO).find(text)


@given(
    st.lists(st.sampled_from([row.name for row in PORTFOLIO]), min_size=1, unique=True),
    st.sampled_from([", ", "; ", " and ", ", and "]),
)
def test_names_as_supplied_are_always_found(names: list[str], separator: str) -> None:
    named = HoldingsIndex(PORTFOLIO).find(separator.join(names))
    assert {PORTFOLIO[int(key[1:]) - 1].name for key in named.holding_ids} == set(names)
    assert named.unmatched == named.ambiguous == ()
