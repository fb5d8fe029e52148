"""The walk through a queue, against schedules drawn up by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import outlook
from pipeline.night import Night, read_window, read_zone
from pipeline.outlook import Expected, Plan, Slot, Waiting

NOW = datetime.fromisoformat("2026-01-15T21:00:00+00:00")
"""22:00 on a Thursday in Berlin."""

H = 3600.0


def at(clock: str, days: int = 0) -> datetime:
    return datetime.fromisoformat(f"2026-01-{15 + days}T{clock}:00+00:00")


def job(name: str, hours: float | None = 1, not_before: datetime | None = None) -> Waiting:
    return Waiting(id=name, not_before=not_before, work_s=None if hours is None else hours * H)


def make_night(*, has_weekends: bool = False) -> Night:
    opens, closes = read_window("19:30-06:30")
    return Night(
        opens=opens, closes=closes, zone=read_zone("Europe/Berlin"), has_weekends=has_weekends
    )


OPEN = Plan(now=NOW, night=None, has_hard_end=False, is_paused=False)
NIGHT = replace(OPEN, night=make_night())
HARD = replace(NIGHT, has_hard_end=True)

Told = dict[str, tuple[int, datetime | None, datetime | None, bool]]


def told(found: tuple[Expected, ...]) -> Told:
    return {each.id: (each.position, each.starts_at, each.ends_at, each.is_cut) for each in found}


def slot(free_at: datetime | None, start_up_s: float | None = 0.0) -> Slot:
    return Slot(free_at=free_at, start_up_s=start_up_s)


SCHEDULES: dict[str, tuple[list[Waiting], list[datetime | Slot | None], Plan, Told]] = {
    "one after another on one slot that is busy for half an hour": (
        [job("a"), job("b", 2)],
        [at("21:30")],
        OPEN,
        {
            "a": (1, at("21:30"), at("22:30"), False),
            "b": (2, at("22:30"), at("00:30", 1), False),
        },
    ),
    "two slots": (
        [job("a", 3), job("b"), job("c")],
        [NOW, NOW],
        OPEN,
        {
            "a": (1, NOW, at("00:00", 1), False),
            "b": (2, NOW, at("22:00"), False),
            "c": (3, at("22:00"), at("23:00"), False),
        },
    ),
    "a job that may not begin yet lets others go first, and keeps its rank after": (
        [job("late", 1, at("21:30")), job("b"), job("c")],
        [NOW],
        OPEN,
        {
            "b": (1, NOW, at("22:00"), False),
            "c": (2, at("23:00"), at("00:00", 1), False),
            "late": (3, at("22:00"), at("23:00"), False),
        },
    ),
    "nothing may begin yet": (
        [job("late", 1, at("23:00"))],
        [NOW],
        OPEN,
        {"late": (1, at("23:00"), at("00:00", 1), False)},
    ),
    "what begins before the window closes goes on; the next one waits for the evening": (
        [job("a", 8), job("b", 1), job("c", 1)],
        [NOW],
        NIGHT,
        {
            "a": (1, NOW, at("05:00", 1), False),
            "b": (2, at("05:00", 1), at("06:00", 1), False),
            "c": (3, at("18:30", 1), at("19:30", 1), False),
        },
    ),
    "weekends are open": (
        [job("a", 8), job("b", 1), job("c", 40)],
        [NOW],
        replace(NIGHT, night=make_night(has_weekends=True)),
        {
            "a": (1, NOW, at("05:00", 1), False),
            "b": (2, at("05:00", 1), at("06:00", 1), False),
            "c": (3, at("18:30", 1), at("10:30", 3), False),
        },
    ),
    "a hard end cuts at the close": (
        [job("a", 8), job("b", 1), job("c", 1)],
        [NOW],
        HARD,
        {
            "a": (1, NOW, at("05:00", 1), False),
            "b": (2, at("05:00", 1), at("05:30", 1), True),
            "c": (3, at("18:30", 1), at("19:30", 1), False),
        },
    ),
    "not before a moment of the day is the evening after it": (
        [job("a", 1, at("12:00", 1))],
        [NOW],
        NIGHT,
        {"a": (1, at("18:30", 1), at("19:30", 1), False)},
    ),
    "after what nobody knows nothing is known": (
        [job("a"), job("b", None), job("c")],
        [NOW, at("23:00")],
        OPEN,
        {
            "a": (1, NOW, at("22:00"), False),
            "b": (2, at("22:00"), None, False),
            "c": (3, None, None, False),
        },
    ),
    "a slot of which nobody knows when it is free": (
        [job("a")],
        [NOW, None],
        OPEN,
        {"a": (1, None, None, False)},
    ),
    "each job pays for its start, on the slot that takes it": (
        [job("a"), job("b"), job("c")],
        [slot(NOW, H / 2), slot(NOW, H)],
        OPEN,
        {
            "a": (1, NOW, at("22:30"), False),
            "b": (2, NOW, at("23:00"), False),
            "c": (3, at("22:30"), at("00:00", 1), False),
        },
    ),
    "a start that the hard end comes before": (
        [job("a", 8)],
        [slot(NOW, H)],
        HARD,
        {"a": (1, NOW, at("05:30", 1), True)},
    ),
    "a slot of which nobody knows how long it takes to start": (
        [job("a"), job("b")],
        [slot(NOW, None)],
        OPEN,
        {"a": (1, NOW, None, False), "b": (2, None, None, False)},
    ),
    "no worker": ([job("a")], [], OPEN, {"a": (1, None, None, False)}),
    "a paused queue": (
        [job("a"), job("b")],
        [NOW],
        replace(OPEN, is_paused=True),
        {"a": (1, None, None, False), "b": (2, None, None, False)},
    ),
    "an empty queue": ([], [NOW], OPEN, {}),
    "further away than a year": (
        [job("a", 24 * 400), job("b")],
        [NOW],
        OPEN,
        {"a": (1, NOW, NOW + timedelta(days=400), False), "b": (2, None, None, False)},
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_as_drawn_up_by_hand(name: str) -> None:
    queue, slots, plan, wanted = SCHEDULES[name]
    given = [each if isinstance(each, Slot) else slot(each) for each in slots]
    assert told(outlook.walk(queue, given, plan)) == wanted


@pytest.mark.parametrize(
    ("now", "plan", "hours", "wanted"),
    [
        (NOW, OPEN, 9, (at("06:00", 1), False)),
        (NOW, NIGHT, 9, (at("06:00", 1), False)),
        (NOW, HARD, 9, (at("05:30", 1), True)),
        (NOW, HARD, 8, (at("05:00", 1), False)),
        # The window was made narrower while it ran.
        (at("12:00"), HARD, 1, (at("12:00"), True)),
    ],
)
def test_what_runs_ends_when_its_work_is_done_or_the_window_closes(
    now: datetime, plan: Plan, hours: float, wanted: tuple[datetime, bool]
) -> None:
    assert outlook.running_end(hours * H, replace(plan, now=now)) == wanted


MOMENTS = st.integers(-3 * 24 * 60, 6 * 24 * 60).map(lambda m: NOW + timedelta(minutes=m))


@st.composite
def queues(draw: st.DrawFn) -> list[Waiting]:
    facts = st.tuples(
        st.one_of(st.none(), st.floats(0, 20, allow_nan=False)), st.one_of(st.none(), MOMENTS)
    )
    return [
        job(str(place), hours, not_before)
        for place, (hours, not_before) in enumerate(draw(st.lists(facts, max_size=8)))
    ]


@given(
    queue=queues(),
    slots=st.lists(st.one_of(st.none(), MOMENTS), max_size=3),
    plan=st.sampled_from([OPEN, NIGHT, HARD, replace(NIGHT, is_paused=True)]),
)
@settings(max_examples=150, deadline=None, database=None)
def test_what_is_told_holds_together(
    queue: list[Waiting], slots: list[datetime | None], plan: Plan
) -> None:
    found = outlook.walk(queue, [slot(free_at, 0.0) for free_at in slots], plan)
    assert [each.position for each in found] == [*range(1, len(queue) + 1)]
    assert sorted(each.id for each in found) == sorted(job.id for job in queue)
    jobs = {each.id: each for each in queue}
    known = [each for each in found if each.starts_at is not None]
    if plan.is_paused or not slots or None in slots:
        assert known == []
    for each in known:
        asked = jobs[each.id]
        assert each.starts_at is not None
        assert each.starts_at >= max(plan.now, min(at for at in slots if at is not None))
        assert asked.not_before is None or each.starts_at >= asked.not_before
        assert plan.night is None or plan.night.is_open(each.starts_at)
        assert (each.ends_at is None) == (asked.work_s is None)
        if each.ends_at is not None and not each.is_cut:
            assert asked.work_s is not None
            # To the microsecond that a moment holds.
            assert abs((each.ends_at - each.starts_at).total_seconds() - asked.work_s) < 1e-3
    # One slot, one job at a time.
    busy = sorted((each.starts_at, each.ends_at) for each in known if each.ends_at is not None)
    for start, _ in busy:
        assert sum(begun <= start < end for begun, end in busy) <= len(slots)
    # Whoever waits for nothing is not overtaken by whoever is behind.
    plain = [each for each in known if jobs[each.id].not_before is None]
    starts = [each.starts_at for each in plain]
    assert starts == sorted(starts)  # type: ignore[type-var]
