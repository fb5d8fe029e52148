"""A portfolio file becomes holdings, or a list of everything that is wrong with it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputRefused
from pipeline.portfolio import FILE_BYTES_MAX, Portfolio, read_portfolio

ROOT = Path(__file__).parents[2]

HEADER = "id,name,ticker,exchange,currency,asset_type,weight_pct"


def csv_of(*lines: str, header: str = HEADER) -> bytes:
    return "\n".join((header, *lines)).encode()


def entry(**fields: object) -> dict[str, object]:
    whole: dict[str, object] = {
        "id": "h1",
        "name": "Acme Corp",
        "ticker": "ACM",
        "exchange": "NYSE",
        "currency": "USD",
        "asset_type": "equity",
        "weight_pct": 100,
    }
    return {key: value for key, value in {**whole, **fields}.items() if value is not ...}


def json_of(*entries: object) -> bytes:
    return json.dumps(list(entries)).encode()


def read(data: bytes, filename: str | None = None) -> Portfolio:
    return read_portfolio(data, filename=filename)


def problems(data: bytes, filename: str | None = None) -> list[tuple[str, str]]:
    with pytest.raises(InputRefused) as refused:
        read(data, filename)
    return [(problem.code, problem.where) for problem in refused.value.problems]


def message(data: bytes, filename: str | None = None) -> str:
    with pytest.raises(InputRefused) as refused:
        read(data, filename)
    return str(refused.value)


def weights(data: bytes) -> list[Decimal]:
    return [holding.weight_pct for holding in read(data).holdings]


def test_the_samples_say_the_same_in_both_formats() -> None:
    from_json = read((ROOT / "samples/portfolio.json").read_bytes(), "portfolio.json")
    from_csv = read((ROOT / "samples/portfolio.csv").read_bytes(), "portfolio.csv")
    assert from_json.holdings == from_csv.holdings
    assert from_json.sha256 == from_csv.sha256
    assert sum(holding.weight_pct for holding in from_json.holdings) == 100
    short, cash = from_json.holdings[3], from_json.holdings[5]
    assert short.weight_pct == Decimal("-6.15")
    assert (cash.ticker, cash.exchange) == (None, None)
    assert from_json.holdings[0].aliases == ("Halvorsen", "Halvorsen Semi")


def test_the_digest_is_that_of_the_canonical_form() -> None:
    canonical = (
        '[{"aliases":[],"asset_type":"equity","currency":"USD","exchange":"NYSE","id":"h1",'
        '"name":"Acme Corp","ticker":"ACM","weight_pct":"100"}]'
    )
    assert read(json_of(entry())).sha256 == hashlib.sha256(canonical.encode()).hexdigest()
    assert read(json_of(entry(weight_pct=100.0))).sha256 == read(json_of(entry())).sha256
    assert read(json_of(entry(name="Acme"))).sha256 != read(json_of(entry())).sha256


def test_the_order_of_holdings_does_not_change_the_digest() -> None:
    one, two = entry(weight_pct=60), entry(id="h2", ticker="BCM", weight_pct=40)
    assert read(json_of(one, two)).sha256 == read(json_of(two, one)).sha256
    assert [holding.id for holding in read(json_of(two, one)).holdings] == ["h2", "h1"]


def test_an_object_with_holdings_is_read_like_a_list() -> None:
    wrapped = json.dumps({"holdings": [entry()]}).encode()
    assert read(wrapped) == read(json_of(entry()))


@pytest.mark.parametrize(
    "header",
    [
        "ID,Name,Ticker,Exchange,Currency,Asset Type,Weight",
        "Id,Security,Symbol,Exch,CCY,Asset class,Weight %",
        "id,COMPANY NAME,ticker symbol,MIC,Curr,Type,Wgt",
        "Holding ID,Holding,SYMBOL,exchange,ccy,asset_class,Weight (%)",
        "id , name , ticker , exchange , currency , asset-type , % of portfolio",
        'id,"name",ticker,exchange,currency,"security type",Portfolio Weight %',
    ],
)
def test_common_spellings_of_a_header_are_read(header: str) -> None:
    portfolio = read(csv_of("h1,Acme Corp,ACM,NYSE,USD,equity,100", header=header))
    assert portfolio == read(json_of(entry()))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiters_line_ends_and_encodings_are_told_apart(
    delimiter: str, line_end: str, encoding: str
) -> None:
    lines = (HEADER, "h1,Nestlé & Łódź,ACM,NYSE,USD,equity,100", "")
    data = line_end.join(lines).replace(",", delimiter).encode(encoding)
    assert read(data).holdings[0].name == "Nestlé & Łódź"


def test_a_delimiter_told_by_the_first_line_is_used() -> None:
    data = b"sep=;\r\n" + csv_of("h1,Acme,,,USD,cash,99").replace(b",", b";")
    assert problems(data) == [("weights_total", "")]
    assert problems(data.replace(b"99", b"x")) == [("weight_malformed", "row 2, column weight_pct")]


def test_windows_1252_is_read_where_its_letters_leave_no_doubt() -> None:
    data = csv_of("h1,Nestlé Zürich,ACM,NYSE,USD,equity,100").decode().encode("cp1252")
    assert read(data).holdings[0].name == "Nestlé Zürich"


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("Газпром", "cp1251"),
        ("Łódź", "cp1250"),
        ("xдйx", "cp1251"),
        ("ČEZ", "cp1250"),
        ("トヨタ", "shift_jis"),
    ],
)
def test_other_code_pages_are_refused_and_not_read_as_western(name: str, encoding: str) -> None:
    data = csv_of(f"h1,{name},ACM,NYSE,USD,equity,100").decode().encode(encoding)
    assert problems(data) == [("portfolio_encoding", "")]
    assert "UTF-8" in message(data)
    assert "UTF-16" in message(data)


@pytest.mark.parametrize(
    ("text", "delimiter", "value"),
    [
        ("100", ",", "100"),
        ("100.00 %", ",", "100"),
        ("%100", ",", "100"),
        (" 99.75% ", ",", "99.75"),
        ("100,0", ";", "100.0"),
        ("99,75 %", ";", "99.75"),
        ("99.75", ";", "99.75"),
        ("1.0e2", ",", None),
        ('"99,75"', ",", None),
        ('"1.234,5"', ",", None),
        ("12.5.1", ",", None),
        ("1,2,3", ";", None),
        ("--5", ",", None),
        ("ten", ",", None),
        ("٩٩", ",", None),
        ("1_00", ",", None),
    ],
)
def test_weights_are_read_as_spreadsheets_write_them(
    text: str, delimiter: str, value: str | None
) -> None:
    row = f"h1;Acme;;;USD;cash;{text}".replace(";", delimiter)
    data = csv_of(row, header=HEADER.replace(",", delimiter))
    if value is None:
        assert problems(data) == [("weight_malformed", "row 2, column weight_pct")]
    else:
        assert weights(data) == [Decimal(value)]


@pytest.mark.parametrize(
    ("long", "short", "delimiter"),
    [
        ('"1,234.5"', "-1134.5", ","),
        ('"1,234.5"', "(1134.50%)", ","),
        ('"1,234"', '"−1,134"', ","),
        ("1.234,5", "-1.134,5", ";"),
        ("1 234,5", "-1134,5", ";"),
        ("1'234.5", "-1'134.5", ","),
    ],
)
def test_thousands_and_shorts_are_read(long: str, short: str, delimiter: str) -> None:
    rows = [
        f"{key}|{key}|||USD|cash|{weight}".replace("|", delimiter)
        for key, weight in (("a", long), ("b", short))
    ]
    got = weights(csv_of(*rows, header=HEADER.replace(",", delimiter)))
    assert got[0] + got[1] == 100
    assert got[1] < -1000


def test_blank_lines_are_passed_over_and_rows_are_those_of_a_spreadsheet() -> None:
    data = csv_of("", "h1,Acme,ACM,,USD,equity,100", ",,,,,,", "h2,Bcme,BCM,,XYZ,equity,0", "")
    assert problems(data) == [("currency_unknown", "row 5, column currency")]
    quoted = csv_of('h1,"Ac\nme",ACM,,USD,equity,100', "h2,Bcme,BCM,,XYZ,equity,0")
    assert problems(quoted) == [
        ("text_control_character", "row 2, column name"),
        ("currency_unknown", "row 3, column currency"),
    ]


def test_csv_problems_come_all_at_once_with_row_and_column() -> None:
    data = csv_of(
        "h1,Acme,ACM,NYSE,USD,equity,50",
        "h1,Acme Two,ACM,nyse,EUX,,NaN",
        ",Acme Three,acm,NYSE,GBp,equity,inf",
        "h4,Acme, Inc.,ACM,NYSE,USD,equity,50",
        header=HEADER.replace("weight_pct", "Weight %").replace("currency", "CCY"),
    )
    assert problems(data) == [
        ("weight_not_finite", "row 3, column Weight %"),
        ("weight_not_finite", "row 4, column Weight %"),
        ("row_too_long", "row 5"),
        ("currency_unknown", "row 3, column CCY"),
        ("field_missing", "row 3, column asset_type"),
        ("field_missing", "row 4, column id"),
        ("currency_unknown", "row 4, column CCY"),
        ("id_duplicate", "row 3, column id"),
        ("ticker_duplicate", "row 3, column ticker"),
        ("ticker_duplicate", "row 4, column ticker"),
    ]


def test_missing_and_repeated_columns_are_named() -> None:
    assert problems(csv_of("h1", header="id,name,ccy,weight")) == [("column_missing", "row 1")]
    assert "asset_type" in message(csv_of("h1", header="id,name,ccy,weight"))
    both = HEADER + ",Weight %"
    assert problems(csv_of("", header=both)) == [("column_repeated", "row 1, column Weight %")]
    typo = HEADER.replace("currency", "curency")
    assert ("column_unknown", "row 1, column curency") in problems(csv_of("", header=typo))
    assert "did you mean currency?" in message(csv_of("", header=typo))


def test_other_columns_are_ignored_and_said_so() -> None:
    data = csv_of("h1,Acme,,,USD,cash,100,US0378331005", header=HEADER + ",ISIN")
    portfolio = read(data)
    assert portfolio.ignored_columns == ("ISIN",)
    assert portfolio.holdings[0].ticker is None


def test_aliases_come_as_a_list_or_separated_by_semicolons_or_bars() -> None:
    data = csv_of('h1,Acme,,,USD,cash,100,"The Acme; ACME Ltd | Acme"', header=HEADER + ",aka")
    assert read(data).holdings[0].aliases == ("The Acme", "ACME Ltd", "Acme")
    assert read(json_of(entry(aliases=["A, B"]))).holdings[0].aliases == ("A, B",)


@pytest.mark.parametrize(
    ("text", "value"),
    [("12.5", "12.5"), ("-3", "-3"), ('"12.50"', "12.5"), ("1.25e1", "12.5"), ("1e-3", "0.001")],
)
def test_json_weights_keep_every_digit(text: str, value: str) -> None:
    rest = Decimal(100) - Decimal(value)
    data = json_of(entry(weight_pct=...), entry(id="h2", ticker=..., weight_pct=float(rest)))
    data = data.replace(
        b'"asset_type": "equity"}', f'"asset_type":"x","weight_pct":{text}}}'.encode(), 1
    )
    assert weights(data)[0] == Decimal(value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("NaN", "weight_not_finite"),
        ("Infinity", "weight_not_finite"),
        ("-Infinity", "weight_not_finite"),
        ('"nan"', "weight_not_finite"),
        ("true", "field_type"),
        ("null", "field_missing"),
        ("[100]", "field_type"),
        ("{}", "field_type"),
        ('"100%"', "weight_malformed"),
        ('""', "weight_malformed"),
        ("1e99", "weight_out_of_bounds"),
        ("1e999999999", "weight_malformed"),
        ("1" * 5000, "weight_malformed"),
    ],
)
def test_json_weights_that_are_no_numbers_are_refused(value: str, code: str) -> None:
    data = json_of(entry(weight_pct="@")).replace(b'"@"', value.encode())
    assert problems(data) == [(code, "/0/weight_pct")]


def test_json_problems_come_all_at_once_with_pointers() -> None:
    data = b"""{"holding": 1, "holdings": [
      {"id": "a", "id": "b", "name": 5, "curency": "USD", "currency": "usd", "asset_type": true,
       "weight_pct": 50, "aliases": "x"},
      {"id": "b", "name": "N\\u0000", "currency": "USD", "asset_type": "x", "weight_pct": 50},
      7
    ]}"""
    assert problems(data) == [
        ("field_unknown", "/holding"),
        ("field_unknown", "/holdings/0/curency"),
        ("field_repeated", "/holdings/0/id"),
        ("field_type", "/holdings/0/name"),
        ("field_type", "/holdings/0/asset_type"),
        ("field_type", "/holdings/0/aliases"),
        ("field_type", "/holdings/2"),
        ("text_control_character", "/holdings/1/name"),
        ("id_duplicate", "/holdings/1/id"),
    ]
    assert "did you mean currency?" in message(data)
    assert "did you mean holdings?" in message(data)


def test_a_pointer_escapes_what_it_names() -> None:
    assert problems(json_of(entry(**{"a/b~c": 1})))[0] == ("field_unknown", "/0/a~1b~0c")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "portfolio_empty"),
        (b" \r\n ", "portfolio_empty"),
        (b",", "column_missing"),
        (b' ;\t\r\n"",', "column_missing"),
        (b"sep=;\r\n", "column_missing"),
        (b"[]", "portfolio_empty"),
        (HEADER.encode(), "portfolio_empty"),
        (b"{}", "portfolio_format"),
        (b'{"holdings": {}}', "portfolio_format"),
        (b"[{]", "json_malformed"),
        (b"[" * 100_000, "json_malformed"),
        (b"PK\x03\x04 a workbook", "portfolio_format"),
        (b" " * (FILE_BYTES_MAX + 1), "portfolio_too_large"),
        (csv_of('h1,"Ac"me,,,USD,cash,100'), "csv_malformed"),
        (csv_of('h1,"Acme,,,USD,cash,100'), "csv_malformed"),
        (csv_of(*(f"h{n},A,,,USD,cash,0" for n in range(501))), "portfolio_too_large"),
        (b"just some words", "column_missing"),
    ],
)
def test_what_is_no_portfolio_is_refused(data: bytes, code: str) -> None:
    assert [found for found, _ in problems(data)] == [code]


@pytest.mark.parametrize(
    ("weight", "is_accepted"),
    [(99, False), (99.4, False), (99.5, True), (100.5, True), (100.51, False), (101, False)],
)
def test_the_total_may_miss_100_by_rounding_only(weight: float, is_accepted: bool) -> None:
    data = json_of(entry(weight_pct=weight))
    if is_accepted:
        read(data)
    else:
        assert problems(data) == [("weights_total", "")]


def test_fractions_are_not_guessed_but_named() -> None:
    two = entry(weight_pct=0.25), entry(id="h2", ticker=..., weight_pct=0.75)
    assert problems(json_of(*two)) == [("weights_total", "")]
    assert "25 and not 0.25" in message(json_of(*two))
    assert "0.25" not in message(json_of(entry(weight_pct=99)))


def test_a_ticker_without_an_exchange_counts_as_its_own() -> None:
    other = entry(id="h2", exchange=..., weight_pct=0)
    assert len(read(json_of(entry(), other)).holdings) == 2
    third = entry(id="h3", exchange=None, ticker="acm", weight_pct=0)
    assert problems(json_of(entry(), other, third)) == [("ticker_duplicate", "/2/ticker")]


@pytest.mark.parametrize("currency", ["USD", "usd", "CHF", " EUR "])
def test_currencies_are_iso_4217_in_capitals(currency: str) -> None:
    assert read(json_of(entry(currency=currency))).holdings[0].currency == currency.strip().upper()


@pytest.mark.parametrize("currency", ["GBp", "GBX", "US", "DOLLAR", "€", "840", "Usd"])
def test_other_currencies_are_refused(currency: str) -> None:
    assert problems(json_of(entry(currency=currency))) == [("currency_unknown", "/0/currency")]


@pytest.mark.parametrize(
    ("field", "most"),
    [("id", 64), ("name", 200), ("ticker", 32), ("exchange", 64), ("asset_type", 64)],
)
def test_texts_have_a_longest_length(field: str, most: int) -> None:
    read(json_of(entry(**{field: "x" * most})))
    assert problems(json_of(entry(**{field: "x" * (most + 1)}))) == [
        ("text_too_long", f"/0/{field}")
    ]


@pytest.mark.parametrize("character", ["\x00", "\n", "\x1b", "\u202e", "\u2028", "\x9b"])
def test_control_characters_are_refused(character: str) -> None:
    found = problems(json_of(entry(name=f"Ac{character}me")))
    assert found == [("text_control_character", "/0/name")]


def test_messages_stay_short_whatever_is_wrong() -> None:
    data = json_of(*(entry(id="same", currency="z" * 5000, **{"k" * 5000: 1}) for _ in range(500)))
    with pytest.raises(InputRefused) as refused:
        read(data[:0] + json_of(*json.loads(data)[:60]))
    assert all(len(problem.message) < 300 for problem in refused.value.problems)
    assert len(refused.value.problems) == 201
    assert refused.value.problems[-1].code == "more_problems"


def test_a_name_decides_the_format_before_the_content_does() -> None:
    assert problems(json_of(entry()), "holdings.csv")[0][0] == "column_missing"
    assert problems(csv_of("h1,Acme,,,USD,cash,100"), "holdings.json") == [("json_malformed", "")]
    assert len(read(json_of(entry()), "holdings.txt").holdings) == 1


def test_the_currency_tables_are_loaded_only_when_needed() -> None:
    code = "import sys, pipeline.portfolio; sys.exit('pycountry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@given(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read(data)
    except InputRefused as refused:
        assert refused.problems  # noqa: PT017


@given(
    st.text(max_size=60, alphabet=st.sampled_from('",;\t\n\r%.0123456789-()aé ')),
)
def test_any_csv_body_is_read_or_refused(body: str) -> None:
    try:
        read((HEADER + "\n" + body).encode(), "x.csv")
    except InputRefused as refused:
        assert refused.problems  # noqa: PT017
