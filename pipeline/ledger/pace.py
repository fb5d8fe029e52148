"""How fast an engine is here: measured, never promised."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select, true
from sqlalchemy.orm import Session

from pipeline.ledger.schema import EpochRow, JobRow, UnitRow

EPOCHS_MAX = 10
"""Newest epochs that a pace is measured over: a night or two."""

UNITS_MAX = 600
"""Newest units of each: ten minutes, within one window of the model's memory and the next."""

UNITS_MIN = 30
"""Below this much a pace would be that of a start."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long a second of a recording keeps an engine busy, measured over its newest units.

    The longer of a unit's own work and its decoding, which go on side by side.
    """

    engine: str
    work_s_per_source_s: float
    units: int
    epochs: int


def measured(session: Session, engine: str) -> Pace | None:
    """None where too little was run. By monotonic clocks, and bounded: it reads a few thousand
    units by their key."""
    newest = (
        select(JobRow.id)
        .where(JobRow.engine == engine, JobRow.next_epoch > 1)
        .order_by(JobRow.created_at.desc(), JobRow.id.desc())
        .limit(EPOCHS_MAX)
        .subquery()
    )
    epochs = (
        select(EpochRow.job_id, EpochRow.number)
        .join(newest, EpochRow.job_id == newest.c.id)
        .where(EpochRow.last_sequence.is_not(None))
        .order_by(EpochRow.started_at.desc())
        .limit(EPOCHS_MAX)
        .subquery()
    )
    # The last unit's own time is not known before the next one is. The limit of each, more than a
    # bound on what it reads, keeps the units' key in use: without it all units would be read.
    units = (
        select(func.greatest(UnitRow.total_ms, UnitRow.decode_ms).label("work_ms"))
        .where(
            UnitRow.job_id == epochs.c.job_id,
            UnitRow.epoch == epochs.c.number,
            UnitRow.drain.is_(None),
            UnitRow.total_ms.is_not(None),
        )
        .order_by(UnitRow.sequence.desc())
        .limit(UNITS_MAX)
        .lateral()
    )
    found = session.execute(
        select(
            func.sum(units.c.work_ms),
            func.count(),
            func.count(func.distinct(epochs.c.job_id, epochs.c.number)),
        )
        .select_from(epochs)
        .join(units, true())
    )
    work_ms, count, over = found.tuples().one()
    if count < UNITS_MIN:
        return None
    return Pace(
        engine=engine,
        work_s_per_source_s=work_ms / count / 1000,
        units=count,
        epochs=over,
    )
