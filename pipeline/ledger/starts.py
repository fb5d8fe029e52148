"""How long a worker takes from a claim to the first second: measured, never promised."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Double, cast, func, select
from sqlalchemy.orm import Session

from pipeline.ledger.schema import EpochRow, JobRow, UnitRow

JOBS_MAX = 100
"""Newest jobs of an engine whose epochs are looked at: a night or two of several workers."""

EPOCHS_MAX = 10
"""Newest epochs of one worker slot that count, of as much time as those of a pace."""


@dataclass(frozen=True, kw_only=True)
class Starts:
    """What an epoch takes before its first unit: opening the engine, bringing the recording here,
    reading its time stamps and decoding up to where it begins.

    The middle one of those measured: one night on which the storage was away says nothing of the
    next.
    """

    engine: str
    usual_s: float
    """Of all slots together; for one that has not begun anything yet, as an engine's pace is."""
    by_slot: Mapping[str, float]

    def of(self, slot: str) -> float:
        return self.by_slot.get(slot, self.usual_s)


def measured(session: Session, engine: str) -> Starts | None:
    """None where no epoch of it came to a first unit. Bounded: it reads units by their key.

    By the database's clock, less what the first unit itself took.
    """
    newest = (
        select(JobRow.id)
        .where(JobRow.engine == engine, JobRow.next_epoch > 1)
        .order_by(JobRow.created_at.desc(), JobRow.id.desc())
        .limit(JOBS_MAX)
        .subquery()
    )
    passed = func.extract("epoch", UnitRow.committed_at - EpochRow.started_at)
    # Its row is dated by when its write began.
    own_ms = UnitRow.total_ms - func.coalesce(UnitRow.ledger_ms, 0)
    took: ColumnElement[float] = cast(passed, Double()) - own_ms / 1000
    found = session.execute(
        select(EpochRow.slot, took)
        .join(newest, EpochRow.job_id == newest.c.id)
        .join(UnitRow, (UnitRow.job_id == EpochRow.job_id) & (UnitRow.epoch == EpochRow.number))
        .where(UnitRow.sequence == 0, UnitRow.total_ms.is_not(None))
        .order_by(EpochRow.started_at.desc())
    )
    took_s: dict[str, list[float]] = defaultdict(list)
    for slot, seconds in found.tuples():
        if len(took_s[slot]) < EPOCHS_MAX:
            took_s[slot].append(max(seconds, 0.0))
    if not took_s:
        return None
    return Starts(
        engine=engine,
        usual_s=statistics.median(seconds for each in took_s.values() for seconds in each),
        by_slot={slot: statistics.median(each) for slot, each in took_s.items()},
    )
