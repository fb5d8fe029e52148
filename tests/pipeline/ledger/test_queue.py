"""The queue as a whole: paused, draining, open again, and closed outside the night's window."""

from __future__ import annotations

import threading

import pytest

from pipeline.ledger import claims, jobs, queue
from pipeline.ledger.database import Database, connect
from pipeline.ledger.queue import QueueState
from pipeline.night import Night, read_window, read_zone
from pipeline.records import JobState
from tests.pipeline.ledger.clock import tell, told
from tests.pipeline.ledger.factories import rows
from tests.pipeline.ledger.queued import claim, claimed, fail, submit


def set_state(database: Database, state: QueueState) -> None:
    with database.transaction() as session:
        queue.set_state(session, state)


def make_night(window: str, zone: str, *, has_weekends: bool = True) -> Night:
    opens, closes = read_window(window)
    return Night(opens=opens, closes=closes, zone=read_zone(zone), has_weekends=has_weekends)


def test_a_queue_that_nobody_touched_is_open(database: Database) -> None:
    assert queue.state(database) is QueueState.OPEN
    with database.transaction() as session:
        found = queue.read(session)
    assert (found.state, found.changed_at, found.running) == (QueueState.OPEN, None, 0)


@pytest.mark.parametrize("state", [QueueState.PAUSED, QueueState.DRAINING])
def test_nothing_is_claimed_until_the_queue_is_open_again_and_nothing_is_lost(
    database: Database, state: QueueState
) -> None:
    running = claimed(database, slot="other") if submit(database) else None
    first, second = submit(database), submit(database)
    set_state(database, state)
    assert claim(database) is None
    assert claims.waiting(database, engine=None) == 0
    with database.transaction() as session:
        found = queue.read(session)
    assert (found.state, found.running) == (state, 1)
    assert running is not None
    assert jobs.state_of(database, running.key.job_id) is JobState.RUNNING
    fail(database, running.key)
    set_state(database, QueueState.OPEN)
    assert claims.waiting(database, engine=None) == 2
    assert [claimed(database, slot=name).key.job_id for name in ("a", "b")] == [first, second]


def test_a_state_that_is_set_again_keeps_when_it_began(database: Database) -> None:
    set_state(database, QueueState.PAUSED)
    began = rows(database, "SELECT changed_at FROM queue")
    set_state(database, QueueState.PAUSED)
    assert rows(database, "SELECT changed_at FROM queue") == began
    set_state(database, QueueState.DRAINING)
    assert rows(database, "SELECT state, count(*) FROM queue GROUP BY 1") == [("draining", 1)]


def test_a_pause_waits_for_the_claim_that_is_under_way(
    database: Database, module_database_url: str
) -> None:
    """Once it is answered, nothing is claimed any more."""
    set_state(database, QueueState.OPEN)
    job_id = submit(database)
    other = connect(module_database_url)
    order: list[str] = []

    def pause() -> None:
        set_state(other, QueueState.PAUSED)
        order.append("paused")

    def prompt(objective: str, holdings: object) -> str:
        thread.start()
        thread.join(0.3)
        order.append("claimed")
        return objective

    thread = threading.Thread(target=pause)
    try:
        assert claimed(database, prompt=prompt).key.job_id == job_id
        thread.join()
    finally:
        other.dispose()
    assert order == ["claimed", "paused"]


@pytest.mark.parametrize(
    ("zone", "has_weekends", "moments"),
    [
        (
            "Europe/Berlin",
            True,
            {
                "2026-01-15T18:29:59.999999Z": False,
                "2026-01-15T18:30Z": True,
                "2026-01-16T05:29:59Z": True,
                "2026-01-16T05:30Z": False,
                "2026-01-17T11:00Z": True,  # Saturday's noon
                # An hour less of a night: 06:30 is 04:30 on the day the clocks go forward.
                "2026-03-30T04:29:59Z": True,
                "2026-03-30T04:30Z": False,
            },
        ),
        (
            "America/New_York",
            False,
            {
                # The clocks show 01:00 to 02:00 twice, and 06:30 once.
                "2026-11-01T11:29:59Z": True,
                "2026-11-01T11:30Z": False,
                "2026-11-01T16:00Z": False,  # Sunday's noon
                "2026-11-02T00:30Z": True,
            },
        ),
    ],
    ids=["Berlin", "New York"],
)
def test_the_databases_clock_alone_says_whether_the_window_is_open(
    database_url: str, zone: str, has_weekends: bool, moments: dict[str, bool]
) -> None:
    night = make_night("19:30-06:30", zone, has_weekends=has_weekends)
    with told(database_url, min(moments)) as database:
        for moment, is_open in moments.items():
            tell(database, moment)
            job_id = submit(database)
            assert claims.waiting(database, engine=None, night=night) == int(is_open), moment
            found = claim(database, night=night)
            assert (found is not None) == is_open, moment
            if found is None:
                found = claimed(database)
                assert found.closes_in_s is None
            assert found.key.job_id == job_id
            fail(database, found.key)


def test_a_claim_says_how_long_the_window_is_open_yet(database_url: str) -> None:
    night = make_night("19:30-06:30", "Europe/Berlin")
    with told(database_url, "2026-01-15T18:30:30Z") as database:
        submit(database)
        assert claimed(database, night=night).closes_in_s == 11 * 3600 - 30
