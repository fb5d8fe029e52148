"""A job's schedule is read whole, or refused with everything that is wrong."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputRefused
from pipeline.night import read_zone
from pipeline.schedule import Schedule, build_schedule, with_offset

NOW = datetime.fromisoformat("2026-01-15T21:00:00+00:00")


def build(*, is_admin: bool = False, **given: object) -> Schedule:
    asked: dict[str, object] = {"priority": None, "not_before": None, "ready_by": None, **given}
    return build_schedule(
        priority=asked["priority"],
        not_before=asked["not_before"],
        ready_by=asked["ready_by"],
        now=NOW,
        is_admin=is_admin,
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def test_nothing_asked_is_in_its_turn_and_as_soon_as_may_be() -> None:
    assert build() == Schedule(priority=0, not_before=None, ready_by=None)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-16T07:00:00+01:00", "2026-01-16T06:00:00"),
        ("2026-01-16T06:00:00Z", "2026-01-16T06:00:00"),
        ("2026-01-16t06:00:00z", "2026-01-16T06:00:00"),
        ("2026-01-16T06:00:00-00:00", "2026-01-16T06:00:00"),
        ("2026-01-16T06:00:00.5Z", "2026-01-16T06:00:00.500000"),
        ("2026-01-16T06:00:00.123456789Z", "2026-01-16T06:00:00.123456"),
        ("2026-01-15T23:59:59-23:59", "2026-01-16T23:58:59"),
    ],
)
def test_a_time_with_its_offset_is_read_exactly(text: str, moment: str) -> None:
    assert build(not_before=text).not_before == build(ready_by=text).ready_by == utc(moment)


REFUSED: list[tuple[dict[str, object], dict[str, str]]] = [
    *(
        (
            {"ready_by": value, "not_before": value},
            dict.fromkeys(("/ready_by", "/not_before"), code),
        )
        for value, code in (
            ("2026-01-16T06:00:00", "time_without_offset"),
            ("2026-01-16", "time_malformed"),
            ("2026-01-16 06:00:00Z", "time_malformed"),
            ("2026-01-16T06:00:00Z\n", "time_malformed"),
            ("2026-01-16T06:00Z", "time_malformed"),
            ("2026-13-16T06:00:00Z", "time_malformed"),
            ("2026-01-16T24:61:00Z", "time_malformed"),
            ("2026-01-16T06:00:00+24:00", "time_malformed"),
            ("0000-01-01T00:00:00Z", "time_malformed"),
            ("0001-01-01T00:00:00+23:59", "time_malformed"),
            ("9999-12-31T23:59:59-23:59", "time_malformed"),
            ("9999-12-31T00:00:00Z", "time_too_far"),
            ("2027-01-17T06:00:00Z", "time_too_far"),
            ("1926-01-16T06:00:00Z", "time_too_far"),
            ("tomorrow", "time_malformed"),
            ("", "time_malformed"),
            (1_768_500_000, "time_malformed"),
            (["2026-01-16T06:00:00Z"], "time_malformed"),
        )
    ),
    ({"ready_by": "2026-01-15T20:59:59Z"}, {"/ready_by": "ready_by_past"}),
    ({"ready_by": "2026-01-15T21:00:00Z"}, {"/ready_by": "ready_by_past"}),
    *(
        (
            {"ready_by": "2026-01-16T06:00:00Z", "not_before": not_before},
            {"/ready_by": "ready_by_too_early"},
        )
        for not_before in ("2026-01-16T06:00:00Z", "2026-01-16T07:30:00+01:00")
    ),
    ({"priority": True}, {"/priority": "priority_type"}),
    ({"priority": "1"}, {"/priority": "priority_type"}),
    ({"priority": 1.0}, {"/priority": "priority_type"}),
    ({"priority": 101}, {"/priority": "priority_out_of_bounds"}),
    ({"priority": -101}, {"/priority": "priority_out_of_bounds"}),
    ({"priority": -1}, {"/priority": "priority_reserved"}),
    (
        {"priority": 10**400, "not_before": "x", "ready_by": "2026-01-15T20:00:00Z"},
        {
            "/priority": "priority_out_of_bounds",
            "/not_before": "time_malformed",
            "/ready_by": "ready_by_past",
        },
    ),
]


@pytest.mark.parametrize(("asked", "codes"), REFUSED, ids=lambda value: repr(value)[:80])
def test_everything_that_is_wrong_is_told_at_once(
    asked: dict[str, object], codes: dict[str, str]
) -> None:
    with pytest.raises(InputRefused) as refused:
        build(**asked)
    assert {found.where: found.code for found in refused.value.problems} == codes


def test_an_admin_may_let_a_job_go_before_those_of_others() -> None:
    assert [build(is_admin=True, priority=n).priority for n in (-100, 0, 100)] == [-100, 0, 100]
    assert [build(priority=n).priority for n in (0, 100)] == [0, 100]


def test_a_time_before_now_is_as_good_as_none_for_a_beginning() -> None:
    asked = build(not_before="2026-01-15T20:00:00Z", ready_by="2026-01-15T21:00:01Z")
    assert asked.not_before == utc("2026-01-15T20:00:00")


@given(st.text())
@settings(max_examples=40, deadline=None, database=None)
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        found = build(ready_by=text).ready_by
    except InputRefused:
        return
    assert found is not None


@pytest.mark.parametrize(
    ("local", "zone", "moment"),
    [
        ("2026-01-16T07:00", "Europe/Berlin", "2026-01-16T06:00:00+00:00"),
        ("2026-07-16T07:00:30", "Europe/Berlin", "2026-07-16T05:00:30+00:00"),
        ("2026-01-16 07:00", "America/New_York", "2026-01-16T12:00:00+00:00"),
        # Shown twice: the first one. Skipped: as much later.
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00+00:00"),
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:30:00+00:00"),
        # No time of a form; whoever builds the schedule says so.
        ("7 o'clock", "Europe/Berlin", "7 o'clock"),
        ("2026-02-30T07:00", "Europe/Berlin", "2026-02-30T07:00"),
        ("0001-01-01T00:00", "Asia/Tokyo", "0001-01-01T00:00"),
    ],
)
def test_a_time_of_a_form_is_read_by_the_clocks_of_its_zone(
    local: str, zone: str, moment: str
) -> None:
    assert with_offset(local, read_zone(zone)) == moment
