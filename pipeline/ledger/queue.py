"""The queue as a whole: whether workers may take from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.schema import EpochRow, QueueRow


class QueueState(str, Enum):
    """Whether a queued job may be claimed; what runs goes on in every one of them."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"
    """Paused by somebody who waits until nothing runs any more."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The queue's state, and what still runs."""

    state: QueueState
    changed_at: datetime | None
    """None where nobody has ever changed it."""
    running: int
    """Epochs that hold a slot, those of `omnai analyze` too."""


def state(database: Database) -> QueueState:
    with database.transaction() as session:
        return read_state(session)


def read_state(session: Session) -> QueueState:
    """As `state`, within a transaction."""
    found = session.scalar(select(QueueRow.state))
    return QueueState.OPEN if found is None else QueueState(found)


def read(session: Session) -> Queue:
    row = session.execute(select(QueueRow.state, QueueRow.changed_at)).one_or_none()
    held = select(func.count()).select_from(EpochRow).where(EpochRow.released_at.is_(None))
    return Queue(
        state=QueueState.OPEN if row is None else QueueState(row.state),
        changed_at=None if row is None else row.changed_at,
        running=session.execute(held).scalar_one(),
    )


def set_state(session: Session, wanted: QueueState) -> None:
    """Nothing is claimed any more once this transaction has paused the queue: it waits for the
    claims that are under way."""
    put = insert(QueueRow).values(id=1, state=wanted.value)
    session.execute(
        put.on_conflict_do_update(
            index_elements=[QueueRow.id],
            set_={"state": wanted.value, "changed_at": func.now()},
            where=QueueRow.state != wanted.value,
        )
    )


def is_open_to_claims(session: Session) -> bool:
    """For whoever claims: locks the row, so that a pause and a claim do not pass each other."""
    found = session.scalar(select(QueueRow.state).with_for_update(read=True))
    return found is None or found == QueueState.OPEN.value
