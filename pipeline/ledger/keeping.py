"""How long jobs and recordings are kept, and which of them nobody may delete."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, select, update
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.errors import JobUnknown, RecordingUnknown
from pipeline.ledger.ids import is_id
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.schema import JobRow, RecordingRow, UploadRow

Then = Callable[[Session], None]
"""Writes what has to be committed with the change, or not at all."""


def keep_job(
    database: Database, job_id: str, *, owner: str | None, until: datetime | None, then: Then
) -> None:
    """Say until when it is kept; none for as long as the installation keeps jobs.

    Raises JobUnknown, also for another owner's; an owner of none may all.
    """
    _set(database, JobRow, job_id, owner, {"keep_until": until}, then)


def keep_recording(
    database: Database, recording_id: str, *, owner: str | None, until: datetime | None, then: Then
) -> None:
    """As `keep_job`. Raises RecordingUnknown."""
    _set(database, RecordingRow, recording_id, owner, {"keep_until": until}, then)


def hold_job(database: Database, job_id: str, *, is_held: bool, then: Then) -> None:
    """Under legal hold nobody deletes it; a second hold keeps the first one's time."""
    _set(database, JobRow, job_id, None, _held(JobRow, is_held), then)


def hold_recording(database: Database, recording_id: str, *, is_held: bool, then: Then) -> None:
    """As `hold_job`; it holds the recording's jobs as well."""
    _set(database, RecordingRow, recording_id, None, _held(RecordingRow, is_held), then)


def expired_jobs(kept_days: int | None) -> Select[tuple[str]]:
    """Ids of the ended jobs that may go, the oldest first."""
    held_recording = exists().where(
        RecordingRow.id == JobRow.recording_id, RecordingRow.held_at.is_not(None)
    )
    ended_at = func.greatest(JobRow.succeeded_at, JobRow.failed_at, JobRow.canceled_at)
    return (
        select(JobRow.id)
        .where(
            JobRow.state.in_([state.value for state in ENDED]),
            JobRow.held_at.is_(None),
            ~held_recording,
            _is_over(JobRow, ended_at, kept_days),
        )
        .order_by(JobRow.created_at, JobRow.id)
    )


def expired_recordings(kept_days: int | None) -> Select[tuple[str]]:
    """Ids of the recordings that may go: no job is about one, whatever its state.

    Counted from when its bytes were last sent, since that gives the same recording again.
    """
    sent_at = (
        select(func.max(UploadRow.closed_at))
        .where(UploadRow.recording_id == RecordingRow.id)
        .scalar_subquery()
    )
    return (
        select(RecordingRow.id)
        .where(
            RecordingRow.held_at.is_(None),
            ~exists().where(JobRow.recording_id == RecordingRow.id),
            _is_over(RecordingRow, func.greatest(RecordingRow.created_at, sent_at), kept_days),
        )
        .order_by(RecordingRow.created_at, RecordingRow.id)
    )


def _is_over(
    table: type[JobRow] | type[RecordingRow],
    since: ColumnElement[datetime],
    kept_days: int | None,
) -> ColumnElement[bool]:
    """Its own date counts where it has one, before the installation's days."""
    own = and_(table.keep_until.is_not(None), table.keep_until < func.now())
    if kept_days is None:
        return own
    days = since < func.now() - timedelta(days=kept_days)
    return case((table.keep_until.is_not(None), table.keep_until < func.now()), else_=days)


def _held(table: type[JobRow] | type[RecordingRow], is_held: bool) -> dict[str, object]:
    return {"held_at": func.coalesce(table.held_at, func.now()) if is_held else None}


def _set(
    database: Database,
    table: type[JobRow] | type[RecordingRow],
    row_id: str,
    owner: str | None,
    values: dict[str, object],
    then: Then,
) -> None:
    unknown = JobUnknown if table is JobRow else RecordingUnknown
    if not is_id(row_id):
        raise unknown
    statement = update(table).where(table.id == row_id).values(values).returning(table.id)
    if owner is not None:
        statement = statement.where(table.owner == owner)
    with database.transaction() as session:
        if session.execute(statement).one_or_none() is None:
            raise unknown
        then(session)
