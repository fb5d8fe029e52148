"""A worker host that does not come back: what it held is given up on a person's word."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, or_, select, union_all

from pipeline.ledger import audit, epochs, jobs
from pipeline.ledger.database import Database
from pipeline.ledger.errors import HostAlive, HostUnknown
from pipeline.ledger.schema import EpochRow, WorkerRow
from pipeline.records import EndReason

SILENT_S = 600.0
"""How long a host has to have been silent: a restart of a machine takes minutes."""

DETAIL = "the worker's host did not come back"
OWNER = "omnai"
"""Whom the audit names: a person at the database, who has no key."""


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What a host held."""

    slots: int
    epochs: int
    """That still held one of its slots."""


def forget(database: Database, host: str) -> Forgotten:
    """End what the host left and free its slots, as only its own processes may otherwise.

    May be repeated. Raises HostUnknown, and HostAlive where it was heard of in the last SILENT_S.
    """
    silent_s = _silent_s(database, host)
    if silent_s < SILENT_S:
        raise HostAlive(silent_s=silent_s, silent_s_min=SILENT_S)
    held = epochs.unreleased(database, host=host)
    for epoch in held:
        jobs.give_up(database, epoch.key, end_reason=EndReason.WORKER_LOST, end_detail=DETAIL)
        epochs.release(database, epoch.key)
    with database.transaction() as session:
        old = func.extract("epoch", func.now() - WorkerRow.alive_at) >= SILENT_S
        gone = session.scalars(
            delete(WorkerRow).where(WorkerRow.host == host, old).returning(WorkerRow.id)
        ).all()
        audit.put(
            session,
            actor=None,
            owner=OWNER,
            action="host_forgotten",
            subject=host,
            detail={"slots": len(gone), "epochs": len(held)},
        )
    return Forgotten(slots=len(gone), epochs=len(held))


def _silent_s(database: Database, host: str) -> float:
    signs = union_all(
        select(WorkerRow.alive_at.label("at")).where(WorkerRow.host == host),
        select(EpochRow.alive_at).where(
            EpochRow.host == host, or_(EpochRow.released_at.is_(None), EpochRow.ended_at.is_(None))
        ),
    ).subquery()
    with database.transaction() as session:
        found = session.scalar(select(func.extract("epoch", func.now() - func.max(signs.c.at))))
    if found is None:
        raise HostUnknown
    return float(found)
