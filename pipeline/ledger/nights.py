"""What came of a night: which jobs are done, in part, failed or late, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select
from sqlalchemy.orm import Session

from pipeline.ledger.jobs import ENDED
from pipeline.ledger.schema import EpochRow, JobRow, UnitRow
from pipeline.ledger.schema.jobs import STATE_TIMES
from pipeline.records import JobState

JOBS_MAX = 500
"""Told at once: weeks of nights. Of more the newest are told, and how many are left out."""


class Outcome(str, Enum):
    """What came of a job, as one reads it in the morning: in the order in which it is told."""

    FAILED = "failed"
    """Without anything that was completed."""
    PARTIAL = "partial"
    """Failed; what was completed before is in its brief."""
    CANCELED = "canceled"
    DONE = "done"
    RUNNING = "running"
    WAITING = "waiting"
    """For a worker or its recording."""


@dataclass(frozen=True, kw_only=True)
class NightJob:
    """A job that ended in the night, or was asked for before its end and has not ended yet."""

    job_id: str
    owner: str
    title: str | None
    filename: str
    engine: str
    state: JobState
    outcome: Outcome
    is_late: bool
    """It ended after `ready_by`, or that is over and it has not ended."""
    end_reason: str | None
    end_detail: str | None
    created_at: datetime
    ended_at: datetime | None
    ready_by: datetime | None
    watched_s: int
    """Source seconds that its epochs of this night completed."""
    worked_s: float
    """How long these held a worker."""


@dataclass(frozen=True, kw_only=True)
class NightReport:
    """The jobs of a night as they stand now, the worst first."""

    since: datetime
    until: datetime
    now: datetime
    jobs: tuple[NightJob, ...]
    left_out: int

    def count(self, outcome: Outcome) -> int:
        return sum(job.outcome is outcome for job in self.jobs)

    @property
    def late(self) -> int:
        return sum(job.is_late for job in self.jobs)


def read(session: Session, *, since: datetime, until: datetime, owner: str | None) -> NightReport:
    """`since` belongs to the night and `until` does not; an owner of none sees all."""
    now = session.execute(select(func.now())).scalar_one()
    wanted = _wanted(since, until, owner)
    total = session.execute(select(func.count()).select_from(JobRow).where(*wanted)).scalar_one()
    has_units = exists().where(EpochRow.job_id == JobRow.id, EpochRow.last_sequence.is_not(None))
    rows = session.execute(
        select(JobRow, _ended_at(), has_units)
        .where(*wanted)
        .order_by(func.coalesce(_ended_at(), JobRow.created_at).desc(), JobRow.id)
        .limit(JOBS_MAX)
    )
    found = rows.tuples().all()
    work = _work(session, [job.id for job, _, _ in found], since, until)
    jobs = [_job(job, ended_at, has, work, now) for job, ended_at, has in found]
    worst_first = sorted(jobs, key=lambda job: _ORDER[job.outcome])
    return NightReport(
        since=since, until=until, now=now, jobs=tuple(worst_first), left_out=total - len(jobs)
    )


_ORDER = {outcome: place for place, outcome in enumerate(Outcome)}

_ENDED = tuple(state.value for state in ENDED)


def _wanted(since: datetime, until: datetime, owner: str | None) -> list[ColumnElement[bool]]:
    ended_at = _ended_at()
    wanted: list[ColumnElement[bool]] = [
        or_(
            and_(JobRow.state.in_(_ENDED), ended_at >= since, ended_at < until),
            and_(JobRow.state.not_in(_ENDED), JobRow.created_at < until),
        )
    ]
    return wanted if owner is None else [*wanted, JobRow.owner == owner]


def _ended_at() -> ColumnElement[datetime | None]:
    """When it entered the state in which it ended; none before that."""
    return case(
        *(
            (JobRow.state == state.value, getattr(JobRow, STATE_TIMES[state]))
            for state in sorted(ENDED)
        ),
        else_=None,
    )


def _work(
    session: Session, job_ids: list[str], since: datetime, until: datetime
) -> dict[str, tuple[int, float]]:
    """Completed source seconds and seconds of a worker by job, over the epochs of the night."""
    watched = (
        select(func.count())
        .where(
            UnitRow.job_id == EpochRow.job_id,
            UnitRow.epoch == EpochRow.number,
            UnitRow.second.is_not(None),
        )
        .correlate(EpochRow)
        .scalar_subquery()
    )
    ended_at = func.coalesce(EpochRow.ended_at, func.now())
    rows = session.execute(
        select(
            EpochRow.job_id, watched, func.extract("epoch", ended_at - EpochRow.started_at)
        ).where(EpochRow.job_id.in_(job_ids), EpochRow.started_at < until, ended_at >= since)
    )
    work: dict[str, tuple[int, float]] = {}
    for job_id, units, seconds in rows.tuples():
        before = work.get(job_id, (0, 0.0))
        work[job_id] = before[0] + (units or 0), before[1] + float(seconds)
    return work


def _job(
    job: JobRow,
    ended_at: datetime | None,
    has_units: bool,
    work: dict[str, tuple[int, float]],
    now: datetime,
) -> NightJob:
    watched_s, worked_s = work.get(job.id, (0, 0.0))
    state = JobState(job.state)
    return NightJob(
        job_id=job.id,
        owner=job.owner,
        title=job.title,
        filename=job.filename,
        engine=job.engine,
        state=state,
        outcome=_outcome(state, has_units),
        is_late=job.ready_by is not None and (ended_at or now) > job.ready_by,
        end_reason=job.end_reason,
        end_detail=job.end_detail,
        created_at=job.created_at,
        ended_at=ended_at,
        ready_by=job.ready_by,
        watched_s=watched_s,
        worked_s=worked_s,
    )


def _outcome(state: JobState, has_units: bool) -> Outcome:
    match state:
        case JobState.SUCCEEDED:
            return Outcome.DONE
        case JobState.FAILED:
            return Outcome.PARTIAL if has_units else Outcome.FAILED
        case JobState.CANCELED:
            return Outcome.CANCELED
        case JobState.RUNNING | JobState.CANCELING | JobState.FINALIZING:
            return Outcome.RUNNING
        case JobState.QUEUED | JobState.WAITING_FOR_RECORDING:
            return Outcome.WAITING
