"""Two real connections at one row: whoever locks it first decides, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.errors import FenceLost
from pipeline.ledger import jobs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.records import EndReason, JobState
from tests.pipeline.ledger.factories import record_unit, rows
from tests.pipeline.ledger.racing import Racer, ended, held_at


def race(database: Database, *calls: Callable[[], Any]) -> list[Any]:
    """Queue the calls at the locked epoch in this order; a lost fence is told by its type."""
    outcomes = held_at(database, "SELECT 1 FROM epochs FOR UPDATE", *calls)
    return [FenceLost if isinstance(outcome, FenceLost) else outcome for outcome in outcomes]


@pytest.fixture
def finish(database: Database, key: EpochKey) -> Callable[[], JobState]:
    assert jobs.move(
        database, key.job_id, source=JobState.RUNNING, target=JobState.FINALIZING, under=key
    )
    return lambda: jobs.finish(
        database, key, outcome=JobState.SUCCEEDED, end_reason=EndReason.COMPLETED
    )


@pytest.fixture
def give_up(database: Database, key: EpochKey) -> Callable[[], JobState | None]:
    return lambda: jobs.give_up(database, key, end_reason=EndReason.WORKER_LOST)


def ends(database: Database) -> tuple[str, str, str]:
    [row] = rows(
        database,
        "SELECT state, jobs.end_reason, epochs.end_reason FROM jobs JOIN epochs ON job_id = id",
    )
    return tuple(row)


def test_a_finisher_that_comes_first_wins(
    database: Database, finish: Callable[[], Any], give_up: Callable[[], Any]
) -> None:
    assert race(database, finish, give_up) == [JobState.SUCCEEDED, None]
    assert ends(database) == ("succeeded", "completed", "completed")


def test_a_fencer_that_comes_first_wins(
    database: Database, finish: Callable[[], Any], give_up: Callable[[], Any]
) -> None:
    assert race(database, give_up, finish) == [JobState.FAILED, FenceLost]
    assert ends(database) == ("failed", "worker_lost", "worker_lost")


# Pairs only: whoever waits behind a row that is then updated queues anew, in no certain order.
def test_a_unit_before_a_fence_is_kept(
    database: Database, key: EpochKey, give_up: Callable[[], Any]
) -> None:
    outcomes = race(database, lambda: record_unit(database, key, 0), give_up)
    assert outcomes == [False, JobState.FAILED]
    assert rows(database, "SELECT sequence FROM units") == [(0,)]


def test_a_unit_behind_a_fence_is_lost(
    database: Database, key: EpochKey, give_up: Callable[[], Any]
) -> None:
    outcomes = race(database, give_up, lambda: record_unit(database, key, 0))
    assert outcomes == [JobState.FAILED, FenceLost]
    assert rows(database, "SELECT sequence FROM units") == []


def test_two_fencers_end_it_once(database: Database, give_up: Callable[[], Any]) -> None:
    assert race(database, give_up, give_up) == [JobState.FAILED, None]


def test_the_same_unit_twice_at_once_is_one_unit(database: Database, key: EpochKey) -> None:
    write = lambda: record_unit(database, key, 0)  # noqa: E731
    assert race(database, write, write) == [False, False]
    assert rows(database, "SELECT count(*) FROM units") == [(1,)]


def test_a_finisher_and_a_cancel_never_deadlock_and_agree(
    database: Database, key: EpochKey, finish: Callable[[], Any]
) -> None:
    racers = [Racer(finish), Racer(lambda: jobs.request_cancel(database, key.job_id))]
    for racer in racers:
        racer.start()
    outcome, seen = ended(racers)
    assert (outcome, seen) in {
        (JobState.SUCCEEDED, JobState.SUCCEEDED),
        (JobState.CANCELED, JobState.FINALIZING),
    }
    assert jobs.state_of(database, key.job_id) is outcome
