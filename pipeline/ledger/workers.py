"""The worker processes: one row a slot, for the newest process that took it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.ledger.database import Database
from pipeline.ledger.schema import WorkerRow


class WorkerState(str, Enum):
    """What a worker process is doing; none of it says anything of a job."""

    LOADING = "loading"
    READY = "ready"
    LEAVING = "leaving"
    GONE = "gone"
    QUARANTINED = "quarantined"
    """Its process was killed and does not go: a person must look at the GPU."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker slot's newest process."""

    id: str
    host: str
    slot: str
    engine: str
    pid: int
    state: WorkerState
    started_at: datetime
    alive_at: datetime
    now: datetime
    """The database's clock when this was read; the stamp is judged against it and no other."""


def register(database: Database, *, host: str, slot: str, engine: str, pid: int) -> str:
    """Say that a process loads for this slot and return its id; the one before it loses its row."""
    put = insert(WorkerRow).values(
        host=host, slot=slot, engine=engine, pid=pid, state=WorkerState.LOADING.value
    )
    fresh = {
        "id": func.gen_random_uuid(),
        "engine": engine,
        "pid": pid,
        "state": WorkerState.LOADING.value,
        "started_at": func.now(),
        "alive_at": func.now(),
    }
    with database.transaction() as session:
        return session.execute(
            put.on_conflict_do_update(
                index_elements=[WorkerRow.host, WorkerRow.slot], set_=fresh
            ).returning(WorkerRow.id)
        ).scalar_one()


def stamp(database: Database, worker_id: str) -> bool:
    """Say that the process lives; false where another one has taken its slot."""
    with database.transaction() as session:
        stamped = session.execute(
            update(WorkerRow)
            .where(WorkerRow.id == worker_id)
            .values(alive_at=func.now())
            .returning(WorkerRow.id)
        )
        return stamped.one_or_none() is not None


def set_state(database: Database, worker_id: str, state: WorkerState) -> bool:
    """Also a stamp, except of one that is gone; false where another one has taken its slot."""
    values: dict[str, object] = {"state": state.value}
    if state is not WorkerState.GONE:
        values["alive_at"] = func.now()
    with database.transaction() as session:
        changed = session.execute(
            update(WorkerRow)
            .where(WorkerRow.id == worker_id)
            .values(values)
            .returning(WorkerRow.id)
        )
        return changed.one_or_none() is not None


def listed(database: Database) -> tuple[Worker, ...]:
    """By host and slot."""
    with database.transaction() as session:
        rows = session.execute(
            select(WorkerRow, func.now()).order_by(WorkerRow.host, WorkerRow.slot)
        ).tuples()
        return tuple(
            Worker(
                id=row.id,
                host=row.host,
                slot=row.slot,
                engine=row.engine,
                pid=row.pid,
                state=WorkerState(row.state),
                started_at=row.started_at,
                alive_at=row.alive_at,
                now=now,
            )
            for row, now in rows
        )
