"""Holdings from CSV with a header, in the spellings that spreadsheets and portfolio systems use."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Callable, Mapping, Sequence

from pipeline.characters import quoted
from pipeline.errors import InputRefused, Problem
from pipeline.portfolio.rows import FAULTY, FIELDS, REQUIRED, Row, Table, Value
from pipeline.portfolio.weight import WeightRefused, weight_from_person

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "holding id", "position id", "asset id", "key"),
    "name": (
        "name",
        "holding",
        "holding name",
        "company",
        "company name",
        "security",
        "security name",
        "asset",
        "asset name",
        "instrument",
        "instrument name",
        "issuer",
    ),
    "ticker": ("ticker", "ticker symbol", "symbol", "stock symbol"),
    "exchange": ("exchange", "exchange code", "exch", "listing", "mic"),
    "currency": ("currency", "currency code", "ccy", "curr", "cur"),
    "asset_type": (
        "asset type",
        "asset class",
        "type",
        "security type",
        "instrument type",
        "holding type",
    ),
    "weight_pct": (
        "weight pct",
        "weight",
        "weight percent",
        "weight in pct",
        "weighting",
        "weighting pct",
        "portfolio weight",
        "portfolio weight pct",
        "wgt",
        "wgt pct",
        "wt",
        "wt pct",
        "pct",
        "pct weight",
        "pct of portfolio",
        "percent",
        "allocation",
        "allocation pct",
    ),
    "aliases": ("aliases", "alias", "also known as", "aka", "other names"),
}
"""Headers that mean a field, in lower case, with `%` as `pct` and other marks as spaces."""

_FIELD_OF = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings}


def read_csv(text: str) -> Table:
    """Raises InputRefused where the text is no CSV or its header names no portfolio.

    Rows are numbered as a spreadsheet shows them.
    """
    records, delimiter = _records(text)
    named = ((row, cells) for row, cells in records if any(map(str.strip, cells)))
    header_row, header = next(named, (1, []))
    problems: list[Problem] = []
    columns, ignored = _columns(header, header_row, problems)
    missing = [name for name in REQUIRED if name not in columns.values()]
    if missing:
        problems.append(
            Problem(
                code="column_missing",
                where=f"row {header_row}",
                message=f"no column for {', '.join(missing)}; a header names "
                f"{', '.join(FIELDS[:-1])} and may name aliases",
            )
        )
    if problems:
        raise InputRefused(*problems)
    rows = [
        _row(cells, number, header, columns, delimiter, problems)
        for number, cells in records
        if number > header_row and any(map(str.strip, cells))
    ]
    return Table(rows=tuple(rows), problems=tuple(problems), ignored_columns=ignored)


def _records(text: str) -> tuple[list[tuple[int, list[str]]], str]:
    told = re.match(r"sep=([,;\t])\r?\n", text, re.IGNORECASE)
    if told:
        # Spreadsheets hide this line, so it has no row number.
        text = text[told.end() :]
    delimiter = told.group(1) if told else _delimiter(text)
    records: list[tuple[int, list[str]]] = []
    try:
        for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            records.append((len(records) + 1, cells))
    except csv.Error as error:
        raise InputRefused(
            Problem(
                code="csv_malformed",
                where=f"row {len(records) + 1}",
                message=f"it is not CSV: {error}; quote a field that holds quotes or delimiters",
            )
        ) from error
    return records, delimiter


def _delimiter(text: str) -> str:
    """The delimiter with which the header names most fields."""
    line = next((line for line in text.splitlines() if line.strip(" ,;\t")), "")
    named = {
        delimiter: len({_FIELD_OF.get(_normal(cell)) for cell in line.split(delimiter)} - {None})
        for delimiter in DELIMITERS
    }
    return max(named, key=lambda delimiter: (named[delimiter], line.count(delimiter)))


def _normal(header: str) -> str:
    words = header.replace("%", " pct ").casefold()
    return " ".join(re.split(r"[\W_]+", words)).strip()


def _columns(
    header: Sequence[str], row: int, problems: list[Problem]
) -> tuple[dict[int, str], tuple[str, ...]]:
    columns: dict[int, str] = {}
    ignored: list[str] = []
    for index, title in enumerate(header):
        normal = _normal(title)
        name = _FIELD_OF.get(normal)
        where = f"row {row}, column {_title(title, index)}"
        if name is None:
            near = difflib.get_close_matches(normal[:60], _FIELD_OF, n=1, cutoff=0.85)
            if near:
                message = f"no such column; did you mean {_FIELD_OF[near[0]]}?"
                problems.append(Problem(code="column_unknown", where=where, message=message))
            elif title.strip():
                ignored.append(_title(title, index))
        elif name in columns.values():
            message = f"a column before it gives {name} too; keep one of them"
            problems.append(Problem(code="column_repeated", where=where, message=message))
        else:
            columns[index] = name
    return columns, tuple(ignored)


def _row(
    cells: Sequence[str],
    number: int,
    header: Sequence[str],
    columns: Mapping[int, str],
    delimiter: str,
    problems: list[Problem],
) -> Row:
    titles = {name: _title(header[index], index) for index, name in columns.items()}

    def where(name: str) -> str:
        return f"row {number}, column {titles[name]}" if name in titles else f"row {number}"

    if any(cell.strip() for cell in cells[len(header) :]):
        problems.append(
            Problem(
                code="row_too_long",
                where=f"row {number}",
                message=f"it has {len(cells)} cells and the header {len(header)}; quote a field "
                f"that holds a {DELIMITERS[delimiter]}",
            )
        )
        return Row(values=dict.fromkeys(FIELDS, FAULTY), where=where)
    values: dict[str, Value] = dict.fromkeys(FIELDS)
    for index, name in columns.items():
        text = cells[index].strip() if index < len(cells) else ""
        if text:
            values[name] = _READERS.get(name, _text)(text, delimiter, where(name), problems)
    return Row(values=values, where=where)


def _text(text: str, delimiter: str, where: str, problems: list[Problem]) -> Value:
    return text


def _weight(text: str, delimiter: str, where: str, problems: list[Problem]) -> Value:
    try:
        return weight_from_person(text, has_decimal_comma=delimiter == ";")
    except WeightRefused as refused:
        message = f"{quoted(text)}: {refused}"
        problems.append(Problem(code=refused.code, where=where, message=message))
        return FAULTY


def _aliases(text: str, delimiter: str, where: str, problems: list[Problem]) -> Value:
    return tuple(alias.strip() for alias in re.split(r"[;|]", text) if alias.strip())


_READERS: dict[str, Callable[[str, str, str, list[Problem]], Value]] = {
    "weight_pct": _weight,
    "aliases": _aliases,
}


def _title(title: str, index: int) -> str:
    printable = "".join(c if c.isprintable() else " " for c in title).strip()
    return printable[:40] or f"number {index + 1}"
