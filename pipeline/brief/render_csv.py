"""The findings as CSV for a spreadsheet, in which no text becomes a formula."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal

from pipeline.brief.columns import Value, heads, hours, rows
from pipeline.brief.document import Brief, Moment
from pipeline.decimals import decimal_text

# What a spreadsheet takes for the start of a formula, also behind the white space and quotes that
# it strips, and in the full width that an East Asian one reads alike.
_BEFORE = r"[\s\"'`\uff02\uff07]*"
_ALWAYS = r"=@\uff1d\uff20\ufe66\ufe6b"
_SIGNS = r"+\-\uff0b\uff0d\ufe62\ufe63"
_FORMULA = re.compile(rf"{_BEFORE}[{_ALWAYS}{_SIGNS}]")
# Where the list separator is a semicolon, a field ends there if its quotes were not understood.
_FORMULA_WITHIN = re.compile(rf"(;{_BEFORE})(?=[{_ALWAYS}]|[{_SIGNS}](?![\d.,\s]))")
_WHITE = re.compile(r"[\t\n\r ]+")
_APOSTROPHE = "'"


def to_csv(brief: Brief) -> bytes:
    """RFC 4180 in UTF-8 with a byte order mark, without which Excel reads another encoding.

    Times are `h:mm:ss` on the source clock, weights plain numbers. Line ends within a text are
    spaces, and a text that a spreadsheet could run starts with an apostrophe.
    """
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerow(title for title, _ in heads())
    for row in rows(brief):
        writer.writerow(map(_field, row))
    return written.getvalue().encode("utf-8-sig")


def _field(value: Value) -> str:
    match value:
        case None:
            return ""
        case Decimal():
            return decimal_text(value)
        case Moment():
            return hours(value.ms)
        case str():
            return _inert(value)


def _inert(text: str) -> str:
    text = _FORMULA_WITHIN.sub(rf"\1{_APOSTROPHE}", _WHITE.sub(" ", text))
    return _APOSTROPHE + text if _FORMULA.match(text) else text
