"""Which texts are listed, in which order, and where each comes from."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pipeline.brief.document import Brief
from pipeline.brief.links import media_fragment, safe_href
from pipeline.publish import frame_names
from pipeline.records import Dossier, EvidenceKind, Interval, Origin
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble


def brief(**overrides: object) -> Brief:
    return assemble(make.dossier(**overrides), release="1")


def observed(made: Brief) -> list[str]:
    return [finding.observed for finding in made.findings]


def test_the_largest_absolute_weight_of_a_findings_holdings_comes_first_then_source_time() -> None:
    holdings = (
        make.holding("small", weight_pct=Decimal("5")),
        make.holding("short", weight_pct=Decimal("-40")),
        make.holding("large", weight_pct=Decimal("30.5")),
    )
    findings = (
        make.finding("small", evidence="d", origin=make.origin(0, 1_000)),
        make.finding("large", evidence="b", origin=make.origin(3_000, 4_000)),
        make.finding("large", "small", evidence="c", origin=make.origin(5_000, 6_000)),
        make.finding("small", "short", evidence="a", origin=make.origin(9_000, 10_000)),
    )
    made = brief(holdings=holdings, findings=findings)
    assert observed(made) == ["a", "b", "c", "d"]
    assert [finding.ref for finding in made.findings] == ["F1", "F2", "F3", "F4"]
    assert [ref.id for ref in made.findings[0].holdings] == ["short", "small"]


def two_epochs(*, second_epoch_seconds: range, **overrides: object) -> Dossier:
    return make.dossier(
        epochs=(make.epoch(), make.epoch(2, start_s=second_epoch_seconds.start)),
        units=(*make.units(range(10)), *make.units(second_epoch_seconds, epoch=2)),
        **overrides,
    )


def test_a_finding_follows_the_unit_that_completed_it() -> None:
    """Epoch 2 completed 5–7: what epoch 1 completed in 4 and in 8 stays, in 5 and 7 it goes."""
    findings = tuple(
        make.finding(evidence=str(second), origin=make.origin(1_000, second * 1000 + 1000))
        for second in (4, 5, 7, 8)
    )
    newer = make.finding(epoch=2, evidence="new", origin=make.origin(5_000, 6_000, last_sequence=0))
    evidence = (
        make.evidence("old", origin=make.origin(6_000, 7_000)),
        make.evidence("kept", origin=make.origin(2_000, 3_000)),
    )
    dossier = two_epochs(
        second_epoch_seconds=range(5, 8), findings=(*findings, newer), evidence=evidence
    )
    made = assemble(dossier, release="1")
    assert sorted(observed(made)) == ["4", "8", "new"]
    assert [entry.text for entry in made.evidence] == ["kept"]
    assert made.provenance.findings_superseded == 2
    assert made.provenance.evidence_superseded == 1
    assert [entry.units_kept for entry in made.provenance.epochs] == [7, 3]


@pytest.mark.parametrize(("seconds", "is_kept"), [(range(5, 10), False), (range(5, 9), True)])
def test_what_a_drain_unit_completes_counts_for_the_last_source_second(
    seconds: range, is_kept: bool
) -> None:
    drained = make.finding(origin=make.origin(8_000, 10_000, last_sequence=10))
    base = two_epochs(second_epoch_seconds=seconds)
    units = (*base.units, make.unit(None, epoch=1, sequence=10))
    dossier = make.dossier(epochs=base.epochs, units=units, findings=(drained,))
    assert bool(assemble(dossier, release="1").findings) is is_kept


@pytest.mark.parametrize(
    ("said", "available_from_ms", "expected"),
    [
        ((60_000, 62_000), 0, "t=55,62"),
        ((60_000, 62_000), 58_250, "t=58.25,62"),
        ((3_000, 4_500), 0, "t=0,4.5"),
        ((60_000, 60_001), 0, "t=55,60.001"),
        ((60_000, 62_000), 61_000, "t=60,62"),
    ],
)
def test_the_play_link_starts_its_lead_early_but_not_before_what_was_remembered(
    said: tuple[int, int], available_from_ms: int, expected: str
) -> None:
    origin = make.origin(*said, available_from_ms=available_from_ms)
    (finding,) = brief(findings=(make.finding(origin=origin),)).findings
    assert finding.source.fragment == expected


def test_an_empty_interval_has_no_end_in_its_fragment() -> None:
    assert media_fragment(10_000, 10_000) == "t=10"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("recording.mp4", "recording.mp4"),
        ("../a b#c.mp4", "../a%20b%23c.mp4"),
        ("/jobs/1/recording?x=1&y=2", "/jobs/1/recording?x=1&y=2"),
        ("https://host:8443/a%20b%zz", "https://host:8443/a%20b%25zz"),
        ("file:///tmp/a(1).mp4", "file:///tmp/a%281%29.mp4"),
        ("javascript:alert(1)", "./javascript%3Aalert%281%29"),
        (" javascript:alert(1)", "%20javascript:alert%281%29"),
        ("java\nscript:x", "java%0Ascript:x"),
        ("JaVaScRiPt:x", "./JaVaScRiPt%3Ax"),
        ("data:text/html,x", "./data%3Atext/html,x"),
        ('"><b>', "%22%3E%3Cb%3E"),
    ],
)
def test_an_address_is_encoded_and_never_a_script(address: str, expected: str) -> None:
    assert safe_href(address) == expected


def test_what_could_be_remembered_and_the_frames_come_from_the_origin() -> None:
    kept = make.frame("kept", source_ms=7_500)
    origin = Origin(
        generated_in=Interval(start_ms=8_000, end_ms=9_000),
        available_from_ms=6_000,
        first_sequence=8,
        last_sequence=8,
        frames=(kept,),
    )
    (finding,) = brief(findings=(make.finding(origin=origin),)).findings
    assert (finding.source.interval.start_ms, finding.source.interval.end_ms) == (6_000, 9_000)
    assert finding.source.available_from.ms == 6_000
    assert [frame.at.ms for frame in finding.source.frames] == [7_500]


def test_one_still_shown_at_two_times_is_cited_at_each() -> None:
    """A slide on screen at 0:10 and again at 5:00: the same bytes, two moments."""
    first, again = make.frame("slide", source_ms=10_000), make.frame("slide", source_ms=300_000)
    made = brief(
        findings=(
            make.finding(origin=make.origin(10_000, 11_000, frames=(first,))),
            make.finding(
                turn=1,
                implication="Another.",
                origin=make.origin(300_000, 301_000, frames=(again, first)),
            ),
        ),
        evidence=(make.evidence(turn=2, origin=make.origin(300_000, 302_000, frames=(again,))),),
        units=(*make.units(range(302)),),
    )
    cited = [entry.source.frames for entry in (*made.findings, *made.evidence)]
    assert [[frame.at.text for frame in frames] for frames in cited] == [
        ["0:10"],
        ["5:00", "0:10"],
        ["5:00"],
    ]
    assert frame_names(made) == (make.sha256("slide"),)


def test_quality_marks_name_what_they_concern() -> None:
    (finding,) = brief(
        findings=(make.finding(is_closed=False, unmatched=("Foo",), ambiguous=("A", "B")),)
    ).findings
    assert [(mark.code, mark.names) for mark in finding.marks] == [
        ("unclosed", ()),
        ("unmatched", ("Foo",)),
        ("ambiguous", ("A", "B")),
    ]


def test_cut_evidence_is_marked() -> None:
    made = brief(evidence=(make.evidence("a"), make.evidence("b", turn=2, kind=EvidenceKind.CUT)))
    assert [(entry.text, entry.is_cut) for entry in made.evidence] == [("a", False), ("b", True)]


def test_every_holding_is_either_found_or_said_to_be_looked_for() -> None:
    findings = (
        make.finding("h1", origin=make.origin(8_000, 9_000)),
        make.finding("h1", turn=2, implication="Another.", origin=make.origin(3_000, 4_000)),
    )
    exposure = brief(findings=findings, units=make.units(range(5))).exposure
    assert [(line.holding.id, line.findings) for line in exposure.with_findings] == [
        ("h1", ("F1", "F2"))
    ]
    first = exposure.with_findings[0].first
    assert first is not None
    assert first.ms == 3_000
    assert [line.holding.id for line in exposure.without_findings] == ["h2"]
    assert (exposure.looked_for_ms, exposure.looked_for_share_pct) == (5_000, Decimal("50.0"))
    assert exposure.caution == "No finding is not evidence of absence."
