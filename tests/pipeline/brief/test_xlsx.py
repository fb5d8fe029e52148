"""The findings as a workbook, read back with another library."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import openpyxl

from pipeline.brief.document import Brief
from pipeline.brief.render_json import sha256
from pipeline.brief.render_xlsx import CELL_CHARS_MAX, to_xlsx
from pipeline.brief.visible import visible
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile_table


def read(content: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(content))


def column(sheet: Any, title: str) -> list[Any]:
    heads = [cell.value for cell in sheet[1]]
    return [row[heads.index(title)] for row in sheet.iter_rows(min_row=2)]


@lru_cache(maxsize=1)
def hostile() -> bytes:
    return to_xlsx(hostile_table.brief())


def test_every_hostile_text_is_a_string_and_reads_back_whole() -> None:
    sheet = read(hostile())["Findings"]
    for title in ("Observed", "Implication", "Uncertainty", "To verify"):
        cells = column(sheet, title)
        assert {cell.data_type for cell in cells} == {"s"}
        said = [visible(finding.observed) for finding in hostile_table.brief().findings]
        assert [cell.value for cell in cells] == said


def test_no_sheet_holds_a_formula_a_link_or_anything_outside() -> None:
    with zipfile.ZipFile(io.BytesIO(hostile())) as package:
        assert not [name for name in package.namelist() if "external" in name or "vba" in name]
        for name in package.namelist():
            xml = package.read(name).decode()
            assert not re.search(r"<f[ >]|<hyperlink|DDE|TargetMode", xml), name
    for sheet in read(hostile()):
        # Text, numbers and durations.
        assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {"s", "n", "d"}


def test_weights_are_numbers_and_moments_are_durations() -> None:
    dossier = make.dossier(
        holdings=(make.holding("h1", weight_pct=Decimal("-8.25")),),
        findings=(make.finding(origin=make.origin(3_723_500, 3_724_000)),),
    )
    sheet = read(to_xlsx(make.assemble(dossier)))["Findings"]
    assert [cell.value for cell in column(sheet, "Weight %")] == [-8.25]
    said = column(sheet, "Said from")[0]
    assert said.number_format == "[h]:mm:ss"
    assert said.value == timedelta(hours=1, minutes=2, seconds=3, milliseconds=500)


def test_the_heads_stay_in_sight_and_the_columns_have_widths() -> None:
    for sheet in read(hostile()):
        assert sheet.freeze_panes == "B2"
        assert sheet.auto_filter.ref
        assert all(size.width > 5 for size in sheet.column_dimensions.values())


def about(brief: Brief) -> tuple[Any, dict[str, str]]:
    book = read(to_xlsx(brief))
    rows = book["About"].iter_rows(min_row=2, values_only=True)
    return book, {name: value for name, value in rows if name}


def test_the_workbook_says_what_it_is_of_and_carries_stored_times_only() -> None:
    brief = make.assemble(make.full())
    book, said = about(brief)
    assert said["Brief SHA-256"] == sha256(brief)
    assert said["Status"] == "Complete"
    # The newest thing in it is a note.
    assert book.properties.created.isoformat() == "2026-03-06T07:30:00"
    assert book.properties.modified.isoformat() == "2026-03-06T07:30:00"


def test_holdings_without_a_finding_are_listed_with_what_they_were_looked_for_in() -> None:
    book, said = about(make.assemble(make.dossier()))
    assert [cell.value for cell in column(book["Exposure"], "Findings")] == [
        "Holdings without a finding",
        "Holdings without a finding",
    ]
    assert said["Holdings without a finding"] == "No finding is not evidence of absence."
    assert "No finding is not evidence" in column(book["Findings"], "Marks")[0].value


def test_a_text_longer_than_a_cell_is_cut_and_says_so() -> None:
    long = make.finding(evidence="\U0001f600a" * 20_000)
    sheet = read(to_xlsx(make.assemble(make.dossier(findings=(long,)))))["Findings"]
    shown = column(sheet, "Observed")[0].value
    assert len(shown.encode("utf-16-le")) // 2 <= CELL_CHARS_MAX
    assert shown.startswith("\U0001f600a" * 10_000)
    assert shown.endswith("[cut: a cell holds no more; the JSON has it whole]")
