"""The findings as CSV, read back the way a spreadsheet does."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal

import pytest

from pipeline.brief.document import Brief
from pipeline.brief.render_csv import to_csv
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible
from tests.pipeline.brief import factories as make
from tests.pipeline.brief import hostile_table

TEXTS = ("Observed", "Implication", "Uncertainty", "To verify", "Holdings", "Symbols", "Marks")
TRIGGERS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def read(brief: Brief) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(brief).decode("utf-8-sig"), newline="")))


def test_every_line_ends_as_rfc_4180_asks_and_the_file_says_that_it_is_utf_8() -> None:
    written = to_csv(hostile_table.brief())
    assert written.startswith(b"\xef\xbb\xbf")
    lines = written.removeprefix(b"\xef\xbb\xbf").decode().split("\r\n")
    assert lines.pop() == ""
    assert len(lines) == 1 + len(hostile_table.brief().findings)
    assert not any("\n" in line or "\r" in line for line in lines)


def test_no_cell_of_a_hostile_text_starts_as_a_formula() -> None:
    for row in read(hostile_table.brief()):
        for name, cell in row.items():
            if name in ("Weight %", "Key", "Ref"):
                continue
            start = cell.lstrip(" \"'`\u3000\uff02\uff07")
            assert cell.startswith("'") or not start.startswith(tuple(TRIGGERS)), (name, cell)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ('"=1+1', "'\"=1+1"),
        ("\t=1", "' =1"),
        ("-3% to +5%", "'-3% to +5%"),
        ("down; -3% and; +5%", "down; -3% and; +5%"),
        ("x;=1+1", "x;'=1+1"),
        ("x; @SUM(1)", "x; '@SUM(1)"),
        ("x;+cmd|' /C calc'!A0", "x;'+cmd|' /C calc'!A0"),
        ("Orders = 12, a-b", "Orders = 12, a-b"),
        ("two\nlines", "two lines"),
    ],
)
def test_only_what_could_run_is_marked_and_all_else_stays(text: str, cell: str) -> None:
    row = read(make.assemble(make.dossier(findings=(make.finding(evidence=text),))))[0]
    assert row["Observed"] == cell


def test_every_hostile_text_is_there_but_for_its_white_space_and_our_apostrophes() -> None:
    for finding, row in zip(
        hostile_table.brief().findings, read(hostile_table.brief()), strict=True
    ):
        for name in TEXTS[:4]:
            kept = hostile_table.squeezed(row[name]).replace("'", "")
            assert kept == hostile_table.squeezed(visible(finding.observed)).replace("'", "")


def test_our_own_numbers_and_times_are_numbers_and_times() -> None:
    dossier = make.dossier(
        holdings=(make.holding("h1", weight_pct=Decimal("-8.250")),),
        findings=(make.finding(origin=make.origin(3_723_450, 3_724_000)),),
    )
    row = read(make.assemble(dossier))[0]
    assert row["Weight %"] == "-8.25"
    assert (row["Said from"], row["Said to"]) == ("1:02:03.450", "1:02:04")
    assert row["Remembered from"] == "0:00:00"


def test_every_row_names_its_brief_also_where_there_is_no_finding() -> None:
    for dossier in (make.full(), make.dossier()):
        brief = make.assemble(dossier)
        rows = read(brief)
        assert {row["Brief SHA-256"] for row in rows} == {sha256(brief)}
        assert {row["Brief status"] for row in rows} == {"Complete"}
    assert len(rows) == 1
    assert rows[0]["Ref"] == ""
    assert re.search("No finding is not evidence of absence", rows[0]["Marks"])


def test_a_repeat_and_a_note_stand_with_their_finding() -> None:
    first = read(make.assemble(make.full()))[0]
    assert first["Said again at"] == "0:00:09"
    assert first["State"] == "Verification done"
    assert "Found it." in first["Notes"]
