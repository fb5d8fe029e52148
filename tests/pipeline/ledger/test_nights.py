"""What came of a night, from jobs that ended in every way on either side of its edges."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from pipeline.ledger import epochs, jobs, nights
from pipeline.ledger.database import Database
from pipeline.ledger.nights import NightReport, Outcome
from pipeline.records import EndReason, JobState
from tests.pipeline.ledger.clock import tell, told
from tests.pipeline.ledger.factories import record_unit, rows
from tests.pipeline.ledger.queued import claimed, submit

SINCE, UNTIL = (
    datetime.fromisoformat(f"2026-01-{day}:00+00:00") for day in ("15T18:30", "16T05:30")
)


@pytest.fixture
def evening(database_url: str) -> Iterator[Database]:
    with told(database_url, "2026-01-15T19:00:00Z") as database:
        yield database


def report(database: Database, owner: str | None = None) -> NightReport:
    with database.transaction() as session:
        return nights.read(session, since=SINCE, until=UNTIL, owner=owner)


def wait(database: Database, owner: str = "ana", ready_by: str | None = None) -> str:
    """A job that was asked for at the time that the database was told."""
    job_id = submit(database, owner)
    rows(
        database,
        "UPDATE jobs SET created_at = queued_at, ready_by = CAST(:by AS timestamptz)"
        " WHERE id = :id RETURNING 1",
        by=ready_by,
        id=job_id,
    )
    return job_id


def run(
    database: Database,
    outcome: JobState | None,
    reason: EndReason = EndReason.COMPLETED,
    *,
    units: int = 0,
    ended_at: str = "2026-01-15T23:00:00Z",
    owner: str = "ana",
    ready_by: str | None = None,
) -> str:
    """A job that worked for one hour, and ended then unless its outcome is none."""
    job_id = wait(database, owner, ready_by)
    found = claimed(database, slot=job_id)
    assert found.key.job_id == job_id
    for sequence in range(units):
        record_unit(database, found.key, sequence)
    rows(
        database,
        "UPDATE epochs SET started_at = CAST(:at AS timestamptz) - interval '1 h'"
        " WHERE job_id = :id RETURNING 1",
        at=ended_at,
        id=job_id,
    )
    if outcome is not None:
        tell(database, ended_at)
        if outcome is JobState.SUCCEEDED:
            running, finalizing = JobState.RUNNING, JobState.FINALIZING
            assert jobs.move(database, job_id, source=running, target=finalizing)
        jobs.finish(database, found.key, outcome=outcome, end_reason=reason, end_detail="a detail")
        epochs.release(database, found.key)
    return job_id


def test_every_job_of_the_night_is_told_with_what_came_of_it(evening: Database) -> None:
    wanted = {
        run(evening, JobState.FAILED, EndReason.DECODE_ERROR): (Outcome.FAILED, 0),
        run(evening, JobState.FAILED, EndReason.NIGHT_ENDED, units=3): (Outcome.PARTIAL, 3),
        run(evening, JobState.CANCELED, EndReason.CANCELED, units=1): (Outcome.CANCELED, 1),
        run(evening, JobState.SUCCEEDED, units=2): (Outcome.DONE, 2),
        run(evening, None, units=4): (Outcome.RUNNING, 4),
        wait(evening): (Outcome.WAITING, 0),
    }
    found = report(evening)
    assert {job.job_id: (job.outcome, job.watched_s) for job in found.jobs} == wanted
    assert [job.outcome for job in found.jobs] == list(Outcome)  # the worst first
    assert [found.count(outcome) for outcome in Outcome] == [1] * 6
    assert (found.late, found.left_out) == (0, 0)
    assert [job.worked_s for job in found.jobs] == [3600.0] * 5 + [0.0]
    failed = found.jobs[0]
    assert (failed.end_reason, failed.end_detail) == ("decode_error", "a detail")
    assert failed.ended_at == datetime.fromisoformat("2026-01-15T23:00:00+00:00")
    assert [job.ended_at for job in found.jobs[-2:]] == [None, None]


def test_the_nights_first_moment_belongs_to_it_and_the_one_after_its_last_does_not(
    evening: Database,
) -> None:
    edges = {
        "2026-01-15T18:29:59.999Z": False,
        "2026-01-15T18:30:00Z": True,
        "2026-01-16T05:29:59.999Z": True,
        "2026-01-16T05:30:00Z": False,
    }
    inside = []
    for ended_at, is_inside in edges.items():
        tell(evening, "2026-01-15T12:00:00Z")
        job_id = run(evening, JobState.FAILED, EndReason.INTERNAL, ended_at=ended_at)
        inside += [job_id] if is_inside else []
    tell(evening, "2026-01-16T05:30:00Z")
    wait(evening)
    assert sorted(job.job_id for job in report(evening).jobs) == sorted(inside)


def test_late_is_what_ended_after_its_time_and_what_has_not_ended_by_it(evening: Database) -> None:
    late = {
        run(evening, JobState.SUCCEEDED, ready_by="2026-01-15T22:59:59Z"): True,
        run(evening, JobState.SUCCEEDED, ready_by="2026-01-15T23:00:00Z"): False,
        run(evening, None, ready_by="2026-01-16T04:00:00Z"): True,
        run(evening, None, ready_by="2026-01-16T04:00:01Z"): False,
        run(evening, None): False,
    }
    tell(evening, "2026-01-16T04:00:00.5Z")
    found = report(evening)
    assert {job.job_id: job.is_late for job in found.jobs} == late
    assert found.late == 2


def test_an_owner_sees_ones_own_and_of_too_many_the_newest_are_told(
    evening: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = run(evening, JobState.SUCCEEDED, owner="bob", ended_at="2026-01-15T22:00:00Z")
    mine = run(evening, JobState.SUCCEEDED, ended_at="2026-01-15T23:00:00Z")
    assert [job.job_id for job in report(evening, "ana").jobs] == [mine]
    assert [job.job_id for job in report(evening, "bob").jobs] == [theirs]
    monkeypatch.setattr(nights, "JOBS_MAX", 1)
    found = report(evening)
    assert ([job.job_id for job in found.jobs], found.left_out) == ([mine], 1)
