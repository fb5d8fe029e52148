"""When queued jobs will run: this installation's own pace, its slots, and its plan for nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline import outlook
from pipeline.ledger import lineup, queue, starts
from pipeline.ledger.lineup import Standing
from pipeline.ledger.pace import Pace, measured
from pipeline.ledger.queue import Queue, QueueState
from pipeline.ledger.schema import JobRow
from pipeline.ledger.starts import Starts
from pipeline.outlook import Expected, Plan, Slot, Waiting
from pipeline.records import JobState
from pipeline.settings import Settings


class Unknown(str, Enum):
    """Why no end can be told."""

    QUEUE_PAUSED = "queue_paused"
    NOTHING_MEASURED = "nothing_measured"
    """This installation has not run enough of this engine yet."""
    NO_WORKER = "no_worker"
    """None is ready for this engine."""
    LENGTH_UNKNOWN = "length_unknown"
    """Of the job's own recording."""
    AHEAD_UNKNOWN = "ahead_unknown"
    """How long something ahead of it takes, or it is too far behind."""
    RECORDING_AWAITED = "recording_awaited"
    """The recording is not here yet, so that the job is not in the queue."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A job that runs, or waits for a worker, and what is expected of it."""

    job_id: str
    owner: str
    filename: str
    title: str | None
    engine: str
    state: JobState
    position: int | None
    """From 1, within its engine's queue; none for one that runs."""
    starts_at: datetime | None
    """When it began, where it runs."""
    ends_at: datetime | None
    is_cut: bool
    """The window's close will end it."""
    unknown: Unknown | None
    """Why there is no `ends_at`."""
    not_before: datetime | None
    ready_by: datetime | None
    is_late: bool | None
    """Whether its brief will not be there in time; none where that is not known, or not asked."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The queue as it is now, and what is expected of it."""

    now: datetime
    queue: Queue
    queued: int
    """Jobs that wait for a worker, of everybody."""
    awaited: int
    """Jobs whose recordings are still to come."""
    lines: tuple[Line, ...]
    """First what runs, then the queues, each in order of its positions."""
    paces: Mapping[str, Pace]
    """By engine; only what was measured."""
    starts: Mapping[str, Starts]
    """Likewise."""
    ready: Mapping[str, int]
    """Ready workers by engine, those too that are at work."""

    def line(self, job_id: str) -> Line | None:
        return next((line for line in self.lines if line.job_id == job_id), None)


def read(session: Session, settings: Settings) -> Outlook:
    """What the database knows now. Bounded: of a longer queue the first ones are told."""
    now = session.execute(select(func.now())).scalar_one()
    state = queue.read(session)
    plan = Plan(
        now=now,
        night=settings.window,
        has_hard_end=settings.night_hard_end,
        is_paused=state.state is not QueueState.OPEN,
    )
    running = lineup.running(session)
    slots = lineup.ready_slots(session, now - timedelta(seconds=settings.stale_s))
    engines = lineup.queued_by_engine(session)
    asked = {*engines, *slots, *(found.engine for found in running)}
    paces = {name: pace for name in asked if (pace := measured(session, name)) is not None}
    begun = {name: of for name in paces if (of := starts.measured(session, name)) is not None}
    lines, free = _of_running(running, slots, paces, begun, plan)
    for engine in sorted(engines):
        lines += _of_queue(lineup.queue_of(session, engine), free[engine], paces.get(engine), plan)
    return Outlook(
        now=now,
        queue=state,
        queued=sum(engines.values()),
        awaited=lineup.awaited(session),
        lines=tuple(lines),
        paces=paces,
        starts=begun,
        ready={engine: len(names) for engine, names in slots.items()},
    )


def _of_running(
    running: Sequence[Standing],
    slots: Mapping[str, set[str]],
    paces: Mapping[str, Pace],
    begun: Mapping[str, Starts],
    plan: Plan,
) -> tuple[list[Line], dict[str, list[Slot]]]:
    """What runs, and the ready slots."""
    lines: list[Line] = []
    busy: dict[str, datetime | None] = {}
    for found in running:
        pace = paces.get(found.engine)
        ends_at, is_cut, unknown = None, False, None
        if found.slot not in slots.get(found.engine, ()):
            unknown = Unknown.NO_WORKER
        elif found.left_s is None:
            unknown = Unknown.LENGTH_UNKNOWN
        elif found.left_s > 0 and pace is None:
            unknown = Unknown.NOTHING_MEASURED
        else:
            work_s = found.left_s * pace.work_s_per_source_s if pace else 0.0
            work_s += _start_left_s(found, begun.get(found.engine), plan.now)
            ends_at, is_cut = outlook.running_end(work_s, plan)
        assert found.slot is not None
        busy[found.slot] = ends_at
        lines.append(
            _line(
                found.job,
                plan,
                position=None,
                starts_at=found.started_at,
                ends_at=ends_at,
                is_cut=is_cut,
                unknown=unknown,
            )
        )
    free: dict[str, list[Slot]] = defaultdict(list)
    for engine, names in slots.items():
        of = begun.get(engine)
        free[engine] = [
            Slot(free_at=busy.get(name, plan.now), start_up_s=None if of is None else of.of(name))
            for name in sorted(names)
        ]
    return lines, free


def _start_left_s(found: Standing, begun: Starts | None, now: datetime) -> float:
    """What is left of the way to its first second; nothing once that has taken what is usual."""
    if not found.is_starting or begun is None:
        return 0.0
    assert found.slot is not None
    assert found.started_at is not None
    passed_s = max((now - found.started_at).total_seconds(), 0.0)  # a clock may be put back
    return max(begun.of(found.slot) - passed_s, 0.0)


def _of_queue(
    found: Sequence[Standing], free: Sequence[Slot], pace: Pace | None, plan: Plan
) -> list[Line]:
    waiting = [
        Waiting(
            id=each.job.id,
            not_before=each.job.not_before,
            work_s=None
            if pace is None or each.left_s is None
            else each.left_s * pace.work_s_per_source_s,
        )
        for each in found
    ]
    by_id = {each.job.id: each for each in found}

    def why(expected: Expected) -> Unknown | None:
        if expected.ends_at is not None:
            return None
        if plan.is_paused:
            return Unknown.QUEUE_PAUSED
        if pace is None:
            return Unknown.NOTHING_MEASURED
        if not free:
            return Unknown.NO_WORKER
        is_own = by_id[expected.id].left_s is None
        return Unknown.LENGTH_UNKNOWN if is_own else Unknown.AHEAD_UNKNOWN

    return [
        _line(
            by_id[expected.id].job,
            plan,
            position=expected.position,
            starts_at=expected.starts_at,
            ends_at=expected.ends_at,
            is_cut=expected.is_cut,
            unknown=why(expected),
        )
        for expected in outlook.walk(waiting, free, plan)
    ]


def _line(
    job: JobRow,
    plan: Plan,
    *,
    position: int | None,
    starts_at: datetime | None,
    ends_at: datetime | None,
    is_cut: bool,
    unknown: Unknown | None,
) -> Line:
    is_late: bool | None = None
    if job.ready_by is not None:
        if plan.now > job.ready_by:
            is_late = True
        elif ends_at is not None:
            is_late = is_cut or ends_at > job.ready_by
    return Line(
        job_id=job.id,
        owner=job.owner,
        filename=job.filename,
        title=job.title,
        engine=job.engine,
        state=JobState(job.state),
        position=position,
        starts_at=starts_at,
        ends_at=ends_at,
        is_cut=is_cut,
        unknown=unknown,
        not_before=job.not_before,
        ready_by=job.ready_by,
        is_late=is_late,
    )
