"""Tables of the service itself: answers kept for repeated requests, the audit, the workers."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import (
    Base,
    CreatedAt,
    Document,
    JobId,
    Uid,
    is_one_of,
    is_sha256,
)

WORKER_STATES = ("loading", "ready", "leaving", "gone", "quarantined")


class IdempotencyRow(Base):
    """A request with an idempotency key, and the answer that its repetition gets."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        is_sha256("payload_sha256"),
        CheckConstraint(
            "(status IS NULL) = (answered_at IS NULL) AND (body IS NULL) = (answered_at IS NULL)"
            " AND (headers IS NULL) = (answered_at IS NULL)",
            name="answered_whole",
        ),
    )

    owner: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    payload_sha256: Mapped[str]
    attempt: Mapped[JobId]
    """Names the request that may answer; another one that takes over has another."""
    begun_at: Mapped[CreatedAt]
    answered_at: Mapped[datetime | None]
    status: Mapped[int | None]
    body: Mapped[bytes | None]
    headers: Mapped[Document | None]


class AuditRow(Base):
    """Who did what to what; ids only, never content."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "at"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[CreatedAt]
    key_id: Mapped[JobId | None] = mapped_column(ForeignKey("api_keys.id"))
    """None where no key was used: the command line, a worker."""
    owner: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    detail: Mapped[Document]


class WorkerRow(Base):
    """The newest process of a worker slot; it stamps itself from before it has loaded."""

    __tablename__ = "workers"
    __table_args__ = (
        is_one_of("state", WORKER_STATES, name="state_known"),
        UniqueConstraint("host", "slot"),
    )

    id: Mapped[Uid]
    host: Mapped[str]
    slot: Mapped[str]
    engine: Mapped[str]
    pid: Mapped[int]
    state: Mapped[str]
    started_at: Mapped[CreatedAt]
    alive_at: Mapped[CreatedAt]
