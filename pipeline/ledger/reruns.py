"""An ended job back in the queue: from which second, because of what, asked for by whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import JobUnknown, RerunRefused
from pipeline.ledger.jobs import ENDED, check_id
from pipeline.ledger.schema import BlobRow, EpochRow, JobRow, RecordingRow, RerunRow, UnitRow
from pipeline.ledger.schema.jobs import STATE_TIMES
from pipeline.records import JobState, MediaEnd, Options, Probe

_FORGOTTEN = {
    column: None
    for state, column in STATE_TIMES.items()
    if state not in (JobState.WAITING_FOR_RECORDING, JobState.QUEUED)
}
"""Times of the round before: its epoch keeps when it began and ended."""


class RerunStart(str, Enum):
    """Where a rerun may begin, other than at a second."""

    START = "start"
    """Where the job was first asked to begin."""
    LAST_COMPLETED = "last_completed"
    """The second after the newest epoch's last completed unit, else that epoch's start."""


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """One request to run a job again."""

    epoch: int
    """The number that was reserved; the epoch is there once a worker has claimed the job."""
    start_s: int
    reason: str
    """In the words of whoever asked; untrusted text."""
    requested_by: str
    requested_at: datetime


def request(
    database: Database,
    job_id: str,
    *,
    start: RerunStart | int,
    reason: str,
    by: str,
    then: Callable[[Session, int], None] | None = None,
) -> int:
    """Queue an ended job again and return the number of the epoch that its claim will open.

    What `then` writes, told that number, is committed with the request or not at all.

    Raises JobUnknown, or RerunRefused: `job_not_ended`, `at_source_end`, `start_refused` for a
    negative second, `recording_not_stored`. Of two at once, the second finds the job not ended.
    """
    check_id(job_id)
    with database.transaction() as session:
        job = session.scalar(
            select(JobRow).where(JobRow.id == job_id).with_for_update(key_share=True)
        )
        if job is None:
            raise JobUnknown
        _check_ended(JobState(job.state))
        source_end_ms = _source_end_ms(session, job)
        start_s = _start_s(session, job, start)
        _check_start(start_s, source_end_ms)
        session.execute(
            insert(RerunRow).values(
                job_id=job_id,
                epoch=job.next_epoch,
                start_s=start_s,
                reason=reason,
                requested_by=by,
            )
        )
        session.execute(
            update(JobRow)
            .where(JobRow.id == job_id)
            .values(
                _FORGOTTEN
                | {
                    "state": JobState.QUEUED.value,
                    "queued_at": func.now(),
                    "next_start_s": start_s,
                    "cancel_requested_at": None,
                    "end_reason": None,
                    "end_detail": None,
                }
            )
            .execution_options(synchronize_session=False)
        )
        if then is not None:
            then(session, job.next_epoch)
        return job.next_epoch


def listed(database: Database, job_id: str) -> tuple[Rerun, ...]:
    """Every request for this job, oldest first; of those for one epoch, the last one stands."""
    check_id(job_id)
    with database.transaction() as session:
        rows = session.scalars(
            select(RerunRow).where(RerunRow.job_id == job_id).order_by(RerunRow.id)
        )
        return tuple(
            Rerun(
                epoch=row.epoch,
                start_s=row.start_s,
                reason=row.reason,
                requested_by=row.requested_by,
                requested_at=row.requested_at,
            )
            for row in rows
        )


def _check_ended(state: JobState) -> None:
    if state not in ENDED:
        accepted = ", ".join(sorted(ended.value for ended in ENDED))
        raise RerunRefused(
            "job_not_ended", f"the job is {state.value}; a rerun needs one that is: {accepted}"
        )


def _check_start(start_s: int, source_end_ms: int | None) -> None:
    if start_s < 0:
        raise RerunRefused("start_refused", f"{start_s} is before the source; 0 would be accepted")
    if source_end_ms is not None and start_s * 1000 >= source_end_ms:
        raise RerunRefused(
            "at_source_end",
            f"second {start_s} is at or after the end of the source; "
            f"0 to {max(source_end_ms - 1, 0) // 1000} would be accepted",
        )


def _source_end_ms(session: Session, job: JobRow) -> int | None:
    """Where the source ends: as measured, else by its packets, else unknown.

    Raises RerunRefused where there is nothing to read again.
    """
    recording = session.execute(
        select(RecordingRow.probe, BlobRow.stored_at)
        .join(BlobRow, RecordingRow.blob_sha256 == BlobRow.sha256)
        .where(RecordingRow.id == job.recording_id)
    ).one_or_none()
    if recording is None or recording.stored_at is None:
        raise RerunRefused(
            "recording_not_stored",
            "OmnAI holds no copy of the recording; a new job on an uploaded one would be accepted",
        )
    measured = session.scalar(
        select(EpochRow.media_end)
        .where(EpochRow.job_id == job.id, EpochRow.media_end.is_not(None))
        .order_by(EpochRow.number.desc())
        .limit(1)
    )
    if measured is not None:
        return from_document(MediaEnd, measured).source_end_ms
    probe = recording.probe if job.probe is None else job.probe
    return None if probe is None else from_document(Probe, probe).packet_end_ms


def _start_s(session: Session, job: JobRow, start: RerunStart | int) -> int:
    if not isinstance(start, RerunStart):
        return start
    first_s = from_document(Options, job.options).start_s
    if start is RerunStart.START:
        return first_s
    newest = session.execute(
        select(
            EpochRow.start_s,
            select(func.max(UnitRow.second))
            .where(UnitRow.job_id == EpochRow.job_id, UnitRow.epoch == EpochRow.number)
            .scalar_subquery()
            .label("last_s"),
        )
        .where(EpochRow.job_id == job.id)
        .order_by(EpochRow.number.desc())
        .limit(1)
    ).one_or_none()
    if newest is None:
        return first_s
    start_s: int = newest.start_s
    last_s: int | None = newest.last_s
    return start_s if last_s is None else last_s + 1
