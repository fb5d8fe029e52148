"""The findings to read first: the heaviest, the most complete, and never an order to trade."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pipeline.brief.document import Brief
from pipeline.brief.render_html import to_html
from pipeline.brief.render_markdown import to_markdown
from pipeline.records import Finding, JobState, NoteAction, TextMark
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble

HOLDINGS = (
    make.holding("small", weight_pct=Decimal(5)),
    make.holding("short", weight_pct=Decimal(-40)),
    make.holding("large", weight_pct=Decimal("30.5")),
)
ORDER = (TextMark(code="trade_order", count=1),)


def brief(*findings: Finding, **overrides: object) -> Brief:
    return assemble(make.dossier(findings=findings, holdings=HOLDINGS, **overrides))


def first(made: Brief) -> list[str]:
    entries = {entry.ref: entry for entry in made.findings}
    return [entries[ref].observed for ref in made.bottom_line.findings]


def test_weight_comes_first_then_completeness_then_time() -> None:
    seen = make.origin(6_000, 7_000, frames=(make.frame(),))
    made = brief(
        make.finding("small", turn=0, evidence="whole", origin=seen),
        make.finding("large", turn=1, evidence="unclosed", is_closed=False),
        make.finding("large", turn=2, evidence="unmatched", unmatched=("Foo",)),
        make.finding("large", turn=3, evidence="unseen"),
        make.finding("large", turn=4, evidence="seen", origin=seen),
        make.finding("short", turn=5, evidence="both", is_closed=False, ambiguous=("A",)),
    )
    assert first(made) == ["both", "seen", "unseen", "unclosed", "unmatched"]
    assert made.bottom_line.text.startswith("5 findings of 6, by the weight of the holding")


def test_an_order_to_trade_and_a_rejected_finding_are_left_out_and_counted() -> None:
    made = brief(
        make.finding("short", turn=0, evidence="Sell now.", marks=ORDER),
        make.finding("large", turn=1, evidence="rejected"),
        make.finding("small", turn=2, evidence="kept"),
        notes=(make.note(NoteAction.REJECT, turn=1),),
    )
    assert first(made) == ["kept"]
    assert "Left out here: 2 that were rejected or tell their reader to trade." in (
        made.bottom_line.text
    )
    assert [entry.observed for entry in made.findings] == ["Sell now.", "rejected", "kept"]


def test_an_order_to_trade_is_marked_wherever_it_stands() -> None:
    made = brief(make.finding("short", evidence="Sell now.", marks=ORDER))
    html = to_html(made, recording_href=None, frame_bytes=lambda _: b"")
    assert '<span class="tag">Order to trade</span>' in html
    assert "is no advice." in html
    assert "(order to trade)" in to_markdown(made, recording_href=None, frame_href=None)


def test_where_all_are_left_out_it_is_said_why() -> None:
    made = brief(make.finding("short", evidence="Sell now.", marks=ORDER))
    assert made.bottom_line.findings == ()
    assert "every finding was rejected or tells its reader to trade" in made.bottom_line.text


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED])
def test_without_a_finding_silence_is_not_called_absence(state: JobState) -> None:
    made = brief(state=state)
    assert made.bottom_line.findings == ()
    assert "No finding is not evidence of absence." in made.bottom_line.text
