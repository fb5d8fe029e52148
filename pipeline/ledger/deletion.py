"""Deletion of jobs and recordings: every row at once, and never a byte.

Files go with the sweep, once no row names them. The audit keeps the ids.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, Table, delete, func, or_, select, text
from sqlalchemy.orm import Session

from pipeline.ledger import totals
from pipeline.ledger.database import Database
from pipeline.ledger.errors import DeletionRefused, JobUnknown, RecordingUnknown
from pipeline.ledger.ids import is_id
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.keeping import Then
from pipeline.ledger.schema import (
    Base,
    EpochRow,
    FetchRow,
    FindingRow,
    IdempotencyRow,
    JobRow,
    RecordingRow,
    UploadRow,
)

UNDER_JOB: tuple[Table, ...] = tuple(
    table for table in reversed(Base.metadata.sorted_tables) if "job_id" in table.columns
)
"""Every table with rows of a job, those that refer to others first."""

UNDER_RECORDING: tuple[Table, ...] = tuple(
    table for table in reversed(Base.metadata.sorted_tables) if "recording_id" in table.columns
)
"""The same of a recording; jobs among them, which go as jobs do."""

DELETION_MS = 600_000
"""A day's recording has tens of thousands of units, each of which is looked for in other tables."""


def delete_job(
    database: Database, job_id: str, *, owner: str | None, then: Then | None = None
) -> None:
    """Delete an ended job with everything that it has.

    Raises JobUnknown, also for another owner's (an owner of none may all), and DeletionRefused
    where it has not ended or is held.
    """
    if not is_id(job_id):
        raise JobUnknown
    with database.transaction() as session:
        _begin(session)
        job = session.scalar(select(JobRow).where(JobRow.id == job_id).with_for_update())
        if job is None or owner not in (None, job.owner):
            raise JobUnknown
        recording = session.get(RecordingRow, job.recording_id) if job.recording_id else None
        _check_not_held(recording)
        _check_jobs(session, [job])
        _erase(session, [job_id])
        if then is not None:
            then(session)


def delete_recording(
    database: Database, recording_id: str, *, owner: str | None, then: Then | None = None
) -> None:
    """Delete a recording with all of its owner's jobs about it, or nothing at all.

    Raises RecordingUnknown as `delete_job` does, and DeletionRefused where it or a job is held, a
    job has not ended, or one is another owner's.
    """
    if not is_id(recording_id):
        raise RecordingUnknown
    with database.transaction() as session:
        _begin(session)
        # Before its jobs, as whoever submits one does; from here on none is added.
        recording = session.scalar(
            select(RecordingRow).where(RecordingRow.id == recording_id).with_for_update()
        )
        if recording is None or owner not in (None, recording.owner):
            raise RecordingUnknown
        jobs = session.scalars(
            select(JobRow)
            .where(JobRow.recording_id == recording_id)
            .order_by(JobRow.id)
            .with_for_update()
        ).all()
        _check_not_held(recording)
        if any(job.owner != recording.owner for job in jobs):
            raise DeletionRefused("recording_in_use", "another owner's job is about this recording")
        _check_jobs(session, jobs)
        _erase(session, [job.id for job in jobs])
        _erase_recording(session, recording_id)
        if then is not None:
            then(session)


def delete_expired(
    database: Database, expired: Select[tuple[str]], row_id: str, then: Then
) -> bool:
    """Delete one of `keeping.expired_jobs` or `keeping.expired_recordings`, if it still is one.

    Looked at again once its row is locked: it may have been put under hold, or be wanted anew.
    """
    table = expired.column_descriptions[0]["entity"]

    with database.transaction() as session:
        _begin(session)
        locked = select(table.id).where(table.id == row_id).with_for_update(skip_locked=True)
        if session.scalar(locked) is None:
            return False
        if session.scalar(expired.where(table.id == row_id)) is None:
            return False
        if table is JobRow:
            if _is_unreleased(session, [row_id]):
                return False
            _erase(session, [row_id])
        else:
            _erase_recording(session, row_id)
        then(session)
    return True


def _begin(session: Session) -> None:
    session.execute(text(f"SET LOCAL statement_timeout = {DELETION_MS}"))


def _check_not_held(recording: RecordingRow | None) -> None:
    if recording is not None and recording.held_at is not None:
        raise DeletionRefused("held", "the recording is under legal hold; an admin may end it")


def _check_jobs(session: Session, jobs: Collection[JobRow]) -> None:
    if any(job.held_at is not None for job in jobs):
        raise DeletionRefused("held", "the job is under legal hold; an admin may end it")
    running = {job.state for job in jobs} - {state.value for state in ENDED}
    if running:
        raise DeletionRefused(
            "job_not_ended",
            f"a job of it is {min(running)}; cancel it and wait for its end",
        )
    if _is_unreleased(session, [job.id for job in jobs]):
        raise DeletionRefused(
            "job_not_ended", "a worker has not let go of it yet; try again in a moment"
        )


def _is_unreleased(session: Session, job_ids: Collection[str]) -> bool:
    """An epoch's row is what keeps its slot: it stays until the slot is free."""
    wanted = select(EpochRow.number).where(
        EpochRow.job_id.in_(job_ids), EpochRow.released_at.is_(None)
    )
    return session.scalar(wanted.limit(1)) is not None


def _erase(session: Session, job_ids: Collection[str]) -> None:
    """Of jobs that are locked, have ended and are let go of: nobody but a note adds to them."""
    # Whoever writes a note holds its finding.
    session.execute(
        select(FindingRow.turn).where(FindingRow.job_id.in_(job_ids)).with_for_update()
    ).all()
    fetched = session.scalars(
        select(FetchRow.upload_id).where(
            FetchRow.job_id.in_(job_ids), FetchRow.upload_id.is_not(None)
        )
    ).all()
    totals.carry_over(session, job_ids)
    for table in UNDER_JOB:
        session.execute(delete(table).where(table.columns["job_id"].in_(job_ids)))
    session.execute(
        delete(UploadRow).where(
            UploadRow.id.in_(fetched),
            UploadRow.recording_id.is_(None),
            UploadRow.closed_at.is_not(None),
        )
    )
    session.execute(delete(JobRow).where(JobRow.id.in_(job_ids)))
    for job_id in job_ids:
        _forget_answers(session, f"/v1/jobs/{job_id}", job_id)


def _erase_recording(session: Session, recording_id: str) -> None:
    """Of one that no job names any more."""
    for table in UNDER_RECORDING:
        if table is not JobRow.__table__:
            session.execute(delete(table).where(table.columns["recording_id"] == recording_id))
    session.execute(delete(RecordingRow).where(RecordingRow.id == recording_id))
    _forget_answers(session, f"/v1/recordings/{recording_id}", recording_id)


def _forget_answers(session: Session, place: str, row_id: str) -> None:
    """Kept answers tell what was asked; those of this job or recording say where it is."""
    location = func.jsonb_extract_path_text(IdempotencyRow.headers, "Location")
    session.execute(
        delete(IdempotencyRow).where(
            or_(
                location.endswith(place),
                location.contains(f"{place}/"),
                IdempotencyRow.route.contains(row_id),
            )
        )
    )
