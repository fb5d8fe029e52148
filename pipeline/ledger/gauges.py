"""What is told to whoever watches the service: read in one snapshot, each look bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Double, Interval, case, cast, func, literal, or_, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline.ledger import queue, tallies, totals
from pipeline.ledger.database import Database
from pipeline.ledger.queue import QueueState
from pipeline.ledger.schema import EpochRow, JobRow, WorkerRow
from pipeline.ledger.schema.jobs import STATE_TIMES
from pipeline.ledger.totals import Total
from pipeline.ledger.workers import WorkerState
from pipeline.records import JobState

STATEMENT_TIMEOUT_MS = 5_000
"""Nobody waits longer for figures; each statement takes milliseconds."""

UNENDED = tuple(
    state
    for state in JobState
    if state not in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED)
)

RECENT_EPOCHS = 16
"""Whose newest units are looked at: those that run, and those that ended in the last day."""
RECENT_UNITS = 200
"""Of each, by a range of its primary key: at most 3,200 rows, however many there are."""

WORKER_DAYS = 7
"""A worker that has been silent for longer is one that nobody waits for."""
SERIES_MAX = 200
"""Of what is told one by one: slots and workers. A host has few, but names of hosts may change."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Jobs of one engine in one state."""

    engine: str
    state: str
    count: int
    oldest_s: float
    """How long the oldest has been in it; one that may not start yet does not count as waiting."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast the newest units of one engine went."""

    engine: str
    units: int
    median_s: float
    p95_s: float
    max_s: float
    realtime: float | None
    """Source seconds a second, waits between units included; none for less than two units."""


@dataclass(frozen=True, kw_only=True)
class Live:
    """An epoch that holds a slot, and how old its stamps are."""

    slot: str
    host: str
    phase: str
    alive_age_s: float
    progress_age_s: float


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A worker slot's newest process."""

    host: str
    slot: str
    engine: str
    state: str
    age_s: float
    """Since its last stamp."""


@dataclass(frozen=True, kw_only=True)
class Gauges:
    """All of it, of one moment."""

    queue: QueueState
    waiting: tuple[Waiting, ...]
    totals: tuple[Total, ...]
    paces: tuple[Pace, ...]
    live: tuple[Live, ...]
    workers: tuple[Seen, ...]
    tallies: Mapping[str, int]


def read(database: Database) -> Gauges:
    """Raises DatabaseUnavailable, also where one look takes too long, or SchemaOutdated."""
    with database.transaction(is_snapshot=True) as session:
        session.execute(text(f"SET LOCAL statement_timeout = {STATEMENT_TIMEOUT_MS}"))
        return Gauges(
            queue=queue.read_state(session),
            waiting=_waiting(session),
            totals=totals.read(session),
            paces=_paces(session),
            live=_live(session),
            workers=_workers(session),
            tallies=tallies.read(session),
        )


def _waiting(session: Session) -> tuple[Waiting, ...]:
    times = {state.value: getattr(JobRow, STATE_TIMES[state]) for state in UNENDED}
    since = func.greatest(case(times, value=JobRow.state), JobRow.not_before)
    rows = session.execute(
        select(JobRow.engine, JobRow.state, func.count(), func.max(_age_s(since)))
        .where(JobRow.state.in_(times))
        .group_by(JobRow.engine, JobRow.state)
    )
    return tuple(
        Waiting(engine=engine, state=state, count=count, oldest_s=max(0.0, oldest_s))
        for engine, state, count, oldest_s in rows
    )


_PACES = text(
    """
    WITH recent AS (
        SELECT job_id, number, last_sequence, engine ->> 'name' AS engine
        FROM epochs
        WHERE released_at IS NULL OR ended_at > now() - interval '1 day'
        ORDER BY started_at DESC
        LIMIT :epochs
    ), newest AS (
        SELECT recent.engine, recent.job_id, recent.number, unit.committed_at,
               unit.total_ms / 1000 AS took_s
        FROM recent CROSS JOIN LATERAL (
            SELECT committed_at, total_ms
            FROM units
            WHERE job_id = recent.job_id AND epoch = recent.number AND drain IS NULL
                AND sequence > recent.last_sequence - :units
            ORDER BY sequence DESC
            LIMIT :units
        ) AS unit
    ), stretch AS (
        SELECT engine, count(*) - 1 AS steps,
               extract(epoch FROM max(committed_at) - min(committed_at))::float8 AS passed_s
        FROM newest
        GROUP BY engine, job_id, number
    )
    SELECT engine, count(took_s) AS units,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY took_s) AS median_s,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY took_s) AS p95_s,
           max(took_s) AS max_s,
           (SELECT sum(steps) / nullif(sum(passed_s), 0)
            FROM stretch WHERE stretch.engine = newest.engine) AS realtime
    FROM newest
    GROUP BY engine
    HAVING count(took_s) > 0
    """
)


def _paces(session: Session) -> tuple[Pace, ...]:
    rows = session.execute(_PACES, {"epochs": RECENT_EPOCHS, "units": RECENT_UNITS})
    return tuple(Pace(**row) for row in rows.mappings())


def _live(session: Session) -> tuple[Live, ...]:
    rows = session.execute(
        select(
            EpochRow.slot,
            EpochRow.host,
            EpochRow.phase,
            _age_s(EpochRow.alive_at),
            _age_s(EpochRow.progress_at),
        )
        .where(EpochRow.released_at.is_(None))
        .order_by(EpochRow.slot)
        .limit(SERIES_MAX)
    )
    return tuple(
        Live(slot=slot, host=host, phase=phase, alive_age_s=alive_s, progress_age_s=progress_s)
        for slot, host, phase, alive_s, progress_s in rows
    )


def _workers(session: Session) -> tuple[Seen, ...]:
    oldest = func.now() - cast(literal(f"{WORKER_DAYS} days"), Interval)
    is_expected = or_(WorkerRow.alive_at > oldest, WorkerRow.state == WorkerState.QUARANTINED.value)
    rows = session.execute(
        select(
            WorkerRow.host,
            WorkerRow.slot,
            WorkerRow.engine,
            WorkerRow.state,
            _age_s(WorkerRow.alive_at),
        )
        .where(WorkerRow.state != WorkerState.GONE.value, is_expected)
        .order_by(WorkerRow.alive_at.desc())
        .limit(SERIES_MAX)
    )
    return tuple(
        Seen(host=host, slot=slot, engine=engine, state=state, age_s=age_s)
        for host, slot, engine, state, age_s in rows
    )


def _age_s(since: ColumnElement[Any] | InstrumentedAttribute[Any]) -> ColumnElement[float]:
    return cast(func.extract("epoch", func.now() - since), Double())
