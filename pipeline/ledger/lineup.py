"""What runs and what waits for a worker, as the database has it now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import Session

from pipeline.ledger import dossiers
from pipeline.ledger.documents import from_document
from pipeline.ledger.schema import EpochRow, JobRow, RecordingRow, UnitRow, WorkerRow
from pipeline.ledger.workers import WorkerState
from pipeline.plain import Json
from pipeline.records import JobState, MediaEnd, Options, Probe

JOBS_MAX = 500
"""Queued jobs of one engine that are looked at, the first ones: weeks of nights."""

RUNNING_MAX = 500
"""Epochs that hold a slot: one for each worker there is."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A job of the queue, or one that runs, as it was read."""

    job: JobRow
    engine: str
    slot: str | None
    """Which slot it holds; none for one that waits."""
    started_at: datetime | None
    is_starting: bool
    """Whether it holds a slot and has not completed a second yet."""
    left_s: float | None
    """Source seconds to go; none where the recording's length is not known."""


def queued_by_engine(session: Session) -> dict[str, int]:
    counted = session.execute(
        select(JobRow.engine, func.count())
        .where(JobRow.state == JobState.QUEUED.value)
        .group_by(JobRow.engine)
    )
    return dict(counted.tuples().all())


def awaited(session: Session) -> int:
    state = JobState.WAITING_FOR_RECORDING.value
    counted = select(func.count()).select_from(JobRow).where(JobRow.state == state)
    return session.execute(counted).scalar_one()


def ready_slots(session: Session, alive_since: datetime) -> dict[str, set[str]]:
    """Names of the slots of ready workers, by their engine."""
    found = session.execute(
        select(WorkerRow.engine, WorkerRow.slot).where(
            WorkerRow.state == WorkerState.READY.value, WorkerRow.alive_at > alive_since
        )
    )
    slots: dict[str, set[str]] = defaultdict(set)
    for engine, slot in found.tuples():
        slots[engine].add(slot)
    return dict(slots)


def queue_of(session: Session, engine: str) -> list[Standing]:
    """In the order of claims."""
    wanted = (
        _with_length(select(JobRow, dossiers.probe_of(), _source_end()))
        .where(JobRow.state == JobState.QUEUED.value, JobRow.engine == engine)
        .order_by(JobRow.priority, JobRow.created_at, JobRow.id)
        .limit(JOBS_MAX)
    )
    return [
        Standing(
            job=job,
            engine=engine,
            slot=None,
            started_at=None,
            is_starting=False,
            left_s=_left_s(probe, media_end, _start_s(job) * 1000),
        )
        for job, probe, media_end in session.execute(wanted).tuples()
    ]


def running(session: Session) -> list[Standing]:
    """Every epoch that holds a slot, in the order in which they began."""
    wanted = (
        _with_length(select(JobRow, EpochRow, UnitRow.end_ms, dossiers.probe_of(), _source_end()))
        .join(EpochRow, EpochRow.job_id == JobRow.id)
        .outerjoin(
            UnitRow,
            and_(
                UnitRow.job_id == EpochRow.job_id,
                UnitRow.epoch == EpochRow.number,
                UnitRow.sequence == EpochRow.last_sequence,
            ),
        )
        .where(EpochRow.released_at.is_(None))
        .order_by(EpochRow.started_at, EpochRow.job_id)
        .limit(RUNNING_MAX)
    )
    found = []
    for job, epoch, end_ms, probe, media_end in session.execute(wanted).tuples():
        reached_ms = epoch.start_s * 1000 if end_ms is None else end_ms
        is_ending = epoch.fenced_at is not None or job.state != JobState.RUNNING.value
        found.append(
            Standing(
                job=job,
                engine=job.engine,
                slot=epoch.slot,
                started_at=epoch.started_at,
                is_starting=end_ms is None and not is_ending,
                left_s=0.0 if is_ending else _left_s(probe, media_end, reached_ms),
            )
        )
    return found


def _with_length(wanted: Select[Any]) -> Select[Any]:
    return wanted.join(RecordingRow, JobRow.recording_id == RecordingRow.id)


def _source_end() -> ColumnElement[Any]:
    """As the newest epoch measured it that came to the end."""
    return (
        select(EpochRow.media_end)
        .where(EpochRow.job_id == JobRow.id, EpochRow.media_end.is_not(None))
        .order_by(EpochRow.number.desc())
        .limit(1)
        .correlate(JobRow)
        .scalar_subquery()
    )


def _left_s(probe: Json, media_end: Json, from_ms: int) -> float | None:
    end_ms = None
    if media_end is not None:
        end_ms = from_document(MediaEnd, media_end).source_end_ms
    elif probe is not None:
        end_ms = from_document(Probe, probe).packet_end_ms
    return None if end_ms is None else max(end_ms - from_ms, 0) / 1000


def _start_s(job: JobRow) -> int:
    if job.next_start_s is not None:
        return job.next_start_s
    return from_document(Options, job.options).start_s
