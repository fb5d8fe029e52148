"""What only grows: epochs that ended and the time they held a slot, deleted jobs' included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Double, cast, func, select, text
from sqlalchemy.orm import Session

from pipeline.ledger import tallies
from pipeline.ledger.schema import EpochRow

REMOVED = "removed/"
"""Begins the names under which deleted epochs go on to count: kind, engine, reason."""

LIVE = ""
"""The reason of an epoch that has not ended."""


@dataclass(frozen=True, kw_only=True)
class Total:
    """Epochs of one engine that ended for one reason."""

    engine: str
    reason: str
    """LIVE for those that have not ended."""
    count: int
    held_s: float
    """For how long they have held a slot."""


def read(session: Session) -> tuple[Total, ...]:
    """Since the database was made. Reads every epoch's row once, and no unit."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    held_s: dict[tuple[str, str], float] = defaultdict(float)
    for engine, reason, count, seconds in _rows(session, None):
        counts[engine, reason] += count
        held_s[engine, reason] += seconds
    for name, count in tallies.read(session).items():
        if name.startswith(REMOVED):
            kind, engine, reason = name.removeprefix(REMOVED).split("/", 2)
            if kind == "epochs":
                counts[engine, reason] += count
            else:
                held_s[engine, reason] += count / 1000
    return tuple(
        Total(engine=engine, reason=reason, count=count, held_s=held_s[engine, reason])
        for (engine, reason), count in sorted(counts.items())
    )


def carry_over(session: Session, job_ids: Collection[str]) -> None:
    """Call it in the transaction that deletes these jobs' epochs, before they are deleted: a count
    that fell would be read as one that began anew."""
    for engine, reason, count, seconds in sorted(_rows(session, job_ids)):
        tallies.add(session, f"{REMOVED}epochs/{engine}/{reason}", count)
        tallies.add(session, f"{REMOVED}held_ms/{engine}/{reason}", round(seconds * 1000))


def _rows(
    session: Session, job_ids: Collection[str] | None
) -> Sequence[tuple[str, str, int, float]]:
    engine = EpochRow.engine["name"].astext
    reason = func.coalesce(EpochRow.end_reason, LIVE)
    held = func.coalesce(EpochRow.released_at, func.now()) - EpochRow.started_at
    wanted = select(
        engine, reason, func.count(), cast(func.sum(func.extract("epoch", held)), Double())
    ).group_by(text("1"), text("2"))
    if job_ids is not None:
        wanted = wanted.where(EpochRow.job_id.in_(job_ids))
    return session.execute(wanted).tuples().all()
