"""The findings as a workbook whose every text is a text."""

from __future__ import annotations

import io
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pipeline.brief import facts, sentences, wording
from pipeline.brief.columns import Value, heads, rows
from pipeline.brief.document import Brief, Exposure, Moment
from pipeline.brief.newest import newest_time
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible
from pipeline.brief.zipped import repacked

CELL_CHARS_MAX = 32_767
"""More than this Excel refuses."""
_CUT = " … [cut: a cell holds no more; the JSON has it whole]"
_MS_PER_DAY = 86_400_000
_INERT = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}


def to_xlsx(brief: Brief) -> bytes:
    """Sheets `Findings`, `Exposure` and `About`; times are durations on the source clock."""
    from xlsxwriter import Workbook  # type: ignore[import-untyped]

    made = io.BytesIO()
    with Workbook(made, _INERT) as book:
        book.set_properties(
            {
                "title": _fitting(brief.header.name),
                "comments": f"Brief SHA-256 {sha256(brief)}",
                "created": newest_time(brief),
            }
        )
        sheets = _Sheets(book)
        sheets.write("Findings", heads(), rows(brief))
        sheets.write("Exposure", _EXPOSURE_HEADS, _exposure(brief.exposure))
        sheets.write("About", _ABOUT_HEADS, _about(brief))
    return repacked(made.getvalue())


class _Sheets:
    """Writes tables into a workbook, each value as what it is."""

    def __init__(self, book: Any) -> None:
        top = {"valign": "top"}
        self._book = book
        self._head = book.add_format({"bold": True, "bottom": 1, **top})
        self._text = book.add_format({"text_wrap": True, "num_format": "@", **top})
        self._number = book.add_format({"num_format": "0.######", **top})
        self._time = book.add_format({"num_format": "[h]:mm:ss", **top})

    def write(
        self, name: str, heads: Iterable[tuple[str, int]], rows: Iterable[Iterable[Value]]
    ) -> None:
        sheet = self._book.add_worksheet(name)
        last = 0
        for column, (title, width) in enumerate(heads):
            sheet.set_column(column, column, width)
            sheet.write_string(0, column, title, self._head)
            last = column
        count = 0
        for count, row in enumerate(rows, start=1):
            for column, value in enumerate(row):
                self._cell(sheet, count, column, value)
        sheet.freeze_panes(1, 1)
        sheet.autofilter(0, 0, count, last)
        sheet.set_landscape()
        sheet.repeat_rows(0)
        sheet.fit_to_pages(1, 0)

    def _cell(self, sheet: Any, row: int, column: int, value: Value) -> None:
        match value:
            case None:
                sheet.write_blank(row, column, None, self._text)
            case Decimal():
                sheet.write_number(row, column, float(value), self._number)
            case Moment():
                sheet.write_number(row, column, value.ms / _MS_PER_DAY, self._time)
            case str():
                sheet.write_string(row, column, _fitting(value), self._text)


_EXPOSURE_HEADS = (
    ("Holding", 34),
    ("Symbol", 18),
    ("Weight %", 10),
    ("Findings", 24),
    ("First moment", 13),
)


def _exposure(exposure: Exposure) -> Iterable[list[Value]]:
    for line in (*exposure.with_findings, *exposure.without_findings):
        yield [
            visible(line.holding.name),
            visible(facts.symbol(line.holding)),
            line.holding.weight_pct,
            ", ".join(line.findings) or wording.WITHOUT_FINDING,
            line.first,
        ]


_ABOUT_HEADS = (("What", 26), ("Value", 100))


def _about(brief: Brief) -> Iterable[list[Value]]:
    header, status = brief.header, brief.status
    missing = [f"{item.span.text}: {item.text}" for item in status.missing]
    pairs = [
        ("Recording", header.name),
        ("Status", status.headline),
        *((("Note", header.banner),) if header.banner else ()),
        *(("", sentence) for sentence in status.sentences),
        *((wording.MISSING, line) for line in missing),
        ("Objective", header.objective),
        ("Event date", header.event_date or "not given"),
        ("File", header.filename),
        ("Duration", sentences.duration(header.duration)),
        ("Engine", ", ".join(header.engines)),
        (wording.WITHOUT_FINDING, brief.exposure.caution),
        ("", sentences.looked_for(brief.exposure)),
        *((wording.SECTIONS["method"], sentence) for sentence in brief.method),
        *facts.provenance_facts(brief),
        ("Brief SHA-256", sha256(brief)),
    ]
    for name, value in pairs:
        yield [visible(name), visible(value)]


def _fitting(text: str) -> str:
    text = visible(text)
    # Excel counts in UTF-16.
    if len(text.encode("utf-16-le")) // 2 <= CELL_CHARS_MAX:
        return text
    kept = text.encode("utf-16-le")[: 2 * (CELL_CHARS_MAX - len(_CUT))]
    return kept.decode("utf-16-le", "ignore") + _CUT
