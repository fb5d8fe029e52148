"""What is new, gone or changed since another brief, holding by holding."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pipeline.brief.document import Comparison, ComparisonBasis, FindingEntry
from pipeline.brief.past import PastBrief, read_past
from pipeline.brief.render_json import content_sha256, sha256, to_json
from pipeline.findings.duplicates import likeness
from pipeline.records import Claim, Likeness
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble

HOLDINGS = (
    make.holding("h1", weight_pct=Decimal(10)),
    make.holding("h2", weight_pct=Decimal(-30)),
    make.holding("h3", weight_pct=Decimal(60)),
)


def compared(now: tuple[object, ...], before: PastBrief, **given: object) -> Comparison:
    dossier = make.dossier(findings=now, holdings=HOLDINGS)
    (found,) = assemble(dossier, previous=before, **given).changes
    return found


def told(found: Comparison) -> list[tuple[list[str], list[tuple[str, str | None, str | None]]]]:
    return [
        (
            [holding.id for holding in group.holdings],
            [(change.kind.value, change.now_ref, change.before_ref) for change in group.changes],
        )
        for group in found.groups
    ]


def test_the_first_brief_of_a_job_has_nothing_to_compare_with() -> None:
    assert assemble(make.full()).changes == ()


def test_new_gone_and_changed_are_told_by_holding_the_heaviest_first() -> None:
    now = (
        make.finding("h1", turn=0, evidence="Orders rose by 12%."),
        make.finding("h1", turn=1, evidence="A new plant opens."),
        make.finding("h2", turn=2, evidence="Margins fell."),
        make.finding("h3", "h1", turn=3, evidence="They sign a contract."),
    )
    before = make.past(
        make.past_finding("h1", ref="F7", observed="Orders rose by 10%."),
        make.past_finding("h1", ref="F8", observed="A strike began."),
        make.past_finding("h2", ref="F9", observed="Margins fell."),
    )
    found = compared(now, before)
    assert found.unchanged == 1
    assert told(found) == [
        (["h3", "h1"], [("new", "F1", None)]),
        (["h1"], [("new", "F4", None), ("changed", "F3", "F7"), ("gone", None, "F8")]),
    ]
    (changed,) = [c for g in found.groups for c in g.changes if c.kind.value == "changed"]
    assert changed.before is not None
    assert changed.before.observed == "Orders rose by 10%."
    assert changed.before.implication == "Revenue may rise next quarter."


def test_the_same_finding_of_another_holding_is_another_finding() -> None:
    found = compared((make.finding("h1"),), make.past(make.past_finding("h2")))
    assert found.unchanged == 0
    assert told(found) == [(["h2"], [("gone", None, "F1")]), (["h1"], [("new", "F1", None)])]


def test_what_stayed_the_same_is_no_partner_for_what_changed() -> None:
    """10% stayed; 12% is a change of neither, so that it is told as new."""
    now = (
        make.finding(evidence="Orders rose by 12%.", origin=make.origin(1_000, 2_000)),
        make.finding(turn=1, evidence="Orders rose by 10%.", origin=make.origin(5_000, 6_000)),
    )
    found = compared(now, make.past(make.past_finding(observed="Orders rose by 10%.")))
    assert found.unchanged == 1
    assert told(found) == [(["h1"], [("new", "F1", None)])]


def test_two_changed_findings_take_one_partner_each() -> None:
    now = tuple(make.finding(turn=turn, evidence=f"Orders rose by 1{turn}%.") for turn in range(3))
    before = make.past(
        make.past_finding(ref="F1", observed="Orders rose by 20%."),
        make.past_finding(ref="F2", observed="Orders rose by 21%."),
    )
    assert told(compared(now, before)) == [
        (["h1"], [("new", "F3", None), ("changed", "F1", "F1"), ("changed", "F2", "F2")])
    ]


def test_a_long_brief_asks_the_judge_a_bounded_number_of_times() -> None:
    asked = 0

    def judge(a: Claim, b: Claim) -> Likeness:
        nonlocal asked
        asked += 1
        return Likeness.OTHER

    now = tuple(
        make.finding(turn=at, evidence=f"a{at}", origin=make.origin(at * 1000, at * 1000 + 1000))
        for at in range(300)
    )
    before = make.past(*(make.past_finding(ref=f"F{at}", observed=f"b{at}") for at in range(300)))
    assert len(told(compared(now, before, likeness=judge))[0][1]) == 600
    # Each of the first 200 is held against those before it, the other 100 against 200; and each
    # of the 300 against 200 of the earlier brief.
    assert asked == 199 * 200 // 2 + 100 * 200 + 300 * 200


def test_equal_words_are_found_however_far_apart() -> None:
    now = tuple(make.finding(turn=at, evidence=f"a{at}") for at in range(300))
    before = (make.past_finding(ref=f"F{at}", observed=f"a{299 - at}") for at in range(300))
    assert compared(now, make.past(*before)).unchanged == 300


def test_a_repeat_is_not_counted_as_new() -> None:
    now = (make.finding(), make.finding(turn=1, origin=make.origin(9_000, 10_000)))
    found = compared(now, make.past(make.past_finding()))
    assert (found.unchanged, found.groups) == (1, ())


def test_a_holding_that_only_the_other_portfolio_has_comes_last_under_its_old_name() -> None:
    before = make.past(make.past_finding("gone"), make.past_finding("h1", observed="Other."))
    found = compared((), before)
    assert [[holding.name for holding in group.holdings] for group in found.groups] == [
        ["Company h1"],
        ["Company gone"],
    ]


def test_the_other_job_that_was_asked_for_comes_after_the_jobs_own_brief() -> None:
    dossier = make.dossier(findings=(make.finding(),))
    other = make.past(job_id="0190b6f2-0000-7000-8000-000000000002", revision=4, title="Last year")
    made = assemble(dossier, previous=make.past(make.past_finding()), against=other)
    assert [found.basis for found in made.changes] == list(ComparisonBasis)
    assert (made.changes[1].title, made.changes[1].revision) == ("Last year", 4)
    assert told(made.changes[1]) == [(["h1"], [("new", "F1", None)])]


def test_with_the_real_judge_a_figure_is_a_change_and_another_wording_is_not() -> None:
    now = (
        make.finding(turn=0, evidence="Full-year revenue guidance was raised to $5.2bn."),
        make.finding(turn=1, evidence="The slide shows that orders are up by 12% in Europe."),
    )
    before = make.past(
        make.past_finding(ref="F1", observed="Full-year revenue guidance was raised to $5.1bn."),
        make.past_finding(ref="F2", observed="The slide shows orders are up by 12% in Europe."),
    )
    found = compared(now, before, likeness=likeness)
    assert found.unchanged == 1
    assert told(found) == [(["h1"], [("changed", "F1", "F1")])]


def test_the_content_is_the_same_whatever_it_is_compared_with() -> None:
    alone = assemble(make.full())
    beside = assemble(make.full(), previous=make.past(make.past_finding()))
    assert content_sha256(alone) == content_sha256(beside)
    assert sha256(alone) != sha256(beside)


def test_a_stored_brief_is_read_back_as_what_it_said() -> None:
    brief = assemble(make.full())
    past = read_past(to_json(brief), revision=3, job_id="job")
    assert past is not None
    assert (past.revision, past.job_id, past.title) == (3, "job", "Investor day")
    assert past.sha256 == sha256(brief)

    def said(entry: FindingEntry) -> tuple[object, ...]:
        return entry.ref, [holding.id for holding in entry.holdings], entry.observed

    assert [
        (finding.ref, [holding.id for holding in finding.holdings], finding.observed)
        for finding in past.findings
    ] == [said(entry) for entry in brief.findings]
    assert assemble(make.full(), previous=past).changes[0].unchanged == len(brief.findings)


FIRST = (
    b'{"schema":"omnai.brief/1","sha256":"00","header":{"name":"Call"},"findings":[{"ref":"F1",'
    b'"holdings":[{"id":"h1","name":"Alpha","ticker":null}],"observed":"a","implication":"b"}]}'
)


def test_a_brief_of_the_first_schema_is_read() -> None:
    past = read_past(FIRST, revision=1, job_id="job")
    assert past is not None
    assert [(finding.ref, finding.claim.holding_ids) for finding in past.findings] == [
        ("F1", ("h1",))
    ]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"\xff",
        b'"omnai.brief/1"',
        FIRST.replace(b"brief/1", b"brief/9"),
        FIRST.replace(b'"ref":"F1",', b""),
        FIRST.replace(b'"F1"', b"1"),
        b"[" * 100_000,
    ],
)
def test_what_is_no_brief_that_can_be_read_is_none(document: bytes) -> None:
    assert read_past(document, revision=1, job_id="job") is None
