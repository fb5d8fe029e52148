"""Whether this process can serve: what it looks at, and what each look found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Any

from redis import Redis, RedisError

from api.looks import Look
from pipeline.errors import OmnaiError
from pipeline.ledger import migrate, queue, workers
from pipeline.ledger.database import Database
from pipeline.ledger.errors import SchemaOutdated
from pipeline.ledger.queue import QueueState
from pipeline.ledger.space import space_of
from pipeline.ledger.workers import Worker, WorkerState
from pipeline.ledger.writable import Writable
from pipeline.settings import Settings

LIMIT_S = 3.0
"""For all looks together: those who ask give up after five or so."""

BROKER_S = 1.0

STATES = tuple(state.value for state in WorkerState if state is not WorkerState.GONE)

STALE = "stale"
"""A worker that says it lives and has not for as long as ends an epoch."""

TOO_LATE: Mapping[str, tuple[str, str]] = {
    "database": ("database_unavailable", f"the database did not answer within {LIMIT_S:g} s"),
    "storage": ("storage_unwritable", f"the storage took no write within {LIMIT_S:g} s"),
    "broker": ("queue_silent", f"the queue did not answer within {LIMIT_S:g} s"),
}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the database tells."""

    workers: Mapping[str, int]
    """How many by state, stale ones by that."""
    queue: QueueState


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What all looks found."""

    faults: tuple[tuple[str, str], ...]
    """Codes and sentences; with any, nothing should be sent here."""
    stored: Stored | None
    """None where the database did not tell."""
    is_broker_answering: bool
    """A queue that is away only delays: the database says what is to be done."""


class Readiness:
    """One process's looks."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._writable = Writable(settings)
        self._stored = Look("database", self._look_at_database)
        self._storage = Look("storage", self._look_at_storage)
        self._broker = Look("broker", self._look_at_broker)

    def verdict(self) -> Verdict:
        """Within LIMIT_S, whatever hangs."""
        stored, storage = self._stored.begin(), self._storage.begin()
        broker = self._broker.begin()
        looks: list[futures.Future[Any]] = [stored, storage, broker]
        futures.wait(looks, timeout=LIMIT_S)
        faults = (_fault(stored, "database"), _fault(storage, "storage"))
        return Verdict(
            faults=tuple(fault for fault in faults if fault is not None),
            stored=stored.result() if faults[0] is None else None,
            is_broker_answering=_fault(broker, "broker") is None and broker.result(),
        )

    def _look_at_database(self) -> Stored:
        with self._database.transaction() as session:
            if migrate.is_behind(session):
                raise SchemaOutdated
            state = queue.read_state(session)
        counts = Counter(
            shown_state(worker.state.value, _age_s(worker), self._settings.stale_s)
            for worker in workers.listed(self._database)
        )
        return Stored(workers=counts, queue=state)

    def _look_at_storage(self) -> None:
        self._writable.check()
        space_of(self._settings).check()

    def _look_at_broker(self) -> bool:
        url = self._settings.redis_url
        if url is None:
            return False
        try:
            with Redis.from_url(
                url, socket_timeout=BROKER_S, socket_connect_timeout=BROKER_S
            ) as client:
                return bool(client.ping())
        except (RedisError, OSError, ValueError):
            return False


def shown_state(state: str, age_s: float, stale_s: float) -> str:
    """As it is told outside: a worker's own word, unless its stamp has grown too old for it."""
    is_believed = state in (WorkerState.GONE.value, WorkerState.QUARANTINED.value)
    return state if is_believed or age_s <= stale_s else STALE


def _age_s(worker: Worker) -> float:
    return (worker.now - worker.alive_at).total_seconds()


def _fault(look: futures.Future[Any], name: str) -> tuple[str, str] | None:
    """None for a look that found what it looked for."""
    if not look.done():
        return TOO_LATE[name]
    error = look.exception()
    assert error is None or isinstance(error, OmnaiError)
    return None if error is None else (error.code, error.message)
