"""Retention: what may go by itself, and from when; a hold outweighs every date."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pipeline.ledger import epochs, jobs, keeping, recordings
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import JobUnknown, RecordingUnknown
from pipeline.records import EndReason
from tests.pipeline.ledger.factories import digest, rows, start

PAST = "now() - interval '1 minute'"
TO_COME = "now() + interval '1 minute'"


def expired(database: Database, days: int | None, *, of: str = "jobs") -> bool:
    wanted = keeping.expired_jobs(days) if of == "jobs" else keeping.expired_recordings(days)
    with database.transaction() as session:
        return bool(session.scalars(wanted).all())


def end(database: Database, key: EpochKey) -> None:
    jobs.give_up(database, key, end_reason=EndReason.WORKER_LOST)
    epochs.release(database, key)


@pytest.mark.parametrize(
    ("change", "days", "may_go"),
    [
        ("failed_at = now() - interval '29 days 23 hours'", 30, False),
        ("failed_at = now() - interval '30 days 1 hour'", 30, True),
        ("failed_at = now() - interval '3000 days'", None, False),
        ("failed_at = now() - interval '3000 days', held_at = now()", 30, False),
        (f"failed_at = now() - interval '3000 days', keep_until = {TO_COME}", 30, False),
        (f"keep_until = {PAST}", 30, True),
        (f"keep_until = {PAST}", None, True),
        (f"keep_until = {PAST}, held_at = now()", None, False),
        ("created_at = now() - interval '3000 days'", 30, False),
    ],
)
def test_an_ended_job_may_go_by_its_own_date_or_by_its_end(
    database: Database, change: str, days: int | None, may_go: bool
) -> None:
    end(database, start(database))
    rows(database, f"UPDATE jobs SET {change} RETURNING 1")
    assert expired(database, days) is may_go
    rows(database, "UPDATE recordings SET held_at = now() RETURNING 1")
    assert not expired(database, days)


def test_a_job_that_has_not_ended_never_goes(database: Database) -> None:
    start(database)
    rows(
        database,
        f"UPDATE jobs SET keep_until = {PAST}, created_at = now() - interval '9 years' RETURNING 1",
    )
    assert not expired(database, 1)


@pytest.mark.parametrize(
    ("change", "days", "may_go"),
    [
        ("created_at = now() - interval '31 days'", 30, True),
        ("created_at = now() - interval '29 days'", 30, False),
        ("created_at = now() - interval '31 days'", None, False),
        (f"keep_until = {PAST}", None, True),
        (f"created_at = now() - interval '31 days', keep_until = {TO_COME}", 30, False),
        ("created_at = now() - interval '31 days', held_at = now()", 30, False),
    ],
)
def test_a_recording_may_go_once_no_job_is_about_it(
    database: Database, change: str, days: int | None, may_go: bool
) -> None:
    key = start(database)
    end(database, key)
    rows(database, f"UPDATE recordings SET {change} RETURNING 1")
    assert not expired(database, days, of="recordings")
    rows(database, "WITH e AS (DELETE FROM epochs) SELECT 1")
    rows(database, "WITH h AS (DELETE FROM holdings) SELECT 1")
    rows(database, "DELETE FROM jobs RETURNING 1")
    assert expired(database, days, of="recordings") is may_go


def test_bytes_that_are_sent_again_are_kept_anew(database: Database) -> None:
    for _ in range(2):
        upload_id = recordings.begin_upload(database, owner="ana", filename="call.mp4")
        recordings.finish_upload(database, upload_id, sha256=digest("b"), size_bytes=1, probe=None)
        assert not expired(database, 30, of="recordings")
        rows(database, "UPDATE recordings SET created_at = now() - interval '31 days' RETURNING 1")
        assert not expired(database, 30, of="recordings")
        rows(database, "UPDATE uploads SET closed_at = now() - interval '31 days' RETURNING 1")
        assert expired(database, 30, of="recordings")


def test_a_date_is_the_owners_to_set_and_a_second_hold_keeps_the_first_ones_time(
    database: Database,
) -> None:
    key = start(database)
    until = datetime(2031, 1, 2, tzinfo=timezone.utc)
    done: list[str] = []
    keeping.keep_job(
        database, key.job_id, owner="local", until=until, then=lambda _: done.append("kept")
    )
    with pytest.raises(JobUnknown):
        keeping.keep_job(
            database, key.job_id, owner="bob", until=None, then=lambda _: done.append("no")
        )
    with pytest.raises(RecordingUnknown):
        keeping.hold_recording(database, key.job_id, is_held=True, then=lambda _: done.append("no"))
    assert done == ["kept"]
    held: list[datetime] = []
    for _ in range(2):
        keeping.hold_job(database, key.job_id, is_held=True, then=lambda _: None)
        held += [row[0] for row in rows(database, "SELECT held_at FROM jobs")]
    assert held[0] == held[1]
    ((kept_until,),) = rows(database, "SELECT keep_until FROM jobs")
    assert kept_until - until == timedelta()
