"""Tables of the queue as a whole: whether it is open, and what has been counted."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, is_one_of

QUEUE_STATES = ("open", "paused", "draining")


class QueueRow(Base):
    """The one row that says whether workers may claim; made by the migration."""

    __tablename__ = "queue"
    __table_args__ = (
        CheckConstraint("id = 1", name="one_row"),
        is_one_of("state", QUEUE_STATES, name="state_known"),
    )

    id: Mapped[int] = mapped_column(
        SmallInteger, primary_key=True, server_default=text("1"), autoincrement=False
    )
    state: Mapped[str]
    changed_at: Mapped[CreatedAt]


class TallyRow(Base):
    """How often something happened since the database was made; never read to decide anything."""

    __tablename__ = "tallies"
    __table_args__ = (CheckConstraint("count >= 0", name="count_not_negative"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
