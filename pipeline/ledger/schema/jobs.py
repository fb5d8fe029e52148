"""Tables of what was asked: blobs, recordings, jobs and their holdings."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Numeric,
    UniqueConstraint,
    text,
)
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
from pipeline.records import JobState

STATE_TIMES = {
    JobState.WAITING_FOR_RECORDING: "waiting_at",
    JobState.QUEUED: "queued_at",
    JobState.RUNNING: "running_at",
    JobState.CANCELING: "canceling_at",
    JobState.FINALIZING: "finalizing_at",
    JobState.SUCCEEDED: "succeeded_at",
    JobState.FAILED: "failed_at",
    JobState.CANCELED: "canceled_at",
}
"""When a job last entered each state; a rerun forgets how the job went before it."""


class BlobRow(Base):
    """Bytes by their digest; shared by all recordings with these bytes."""

    __tablename__ = "blobs"
    __table_args__ = (
        is_sha256("sha256"),
        CheckConstraint("size_bytes >= 0", name="size_bytes_not_negative"),
    )

    sha256: Mapped[str] = mapped_column(primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    stored_at: Mapped[datetime | None]
    """None where OmnAI holds no copy, as for a local `analyze`."""
    created_at: Mapped[CreatedAt]


class RecordingRow(Base):
    """A submitted media file; belongs to whoever submitted it."""

    __tablename__ = "recordings"
    __table_args__ = (UniqueConstraint("owner", "blob_sha256"),)

    id: Mapped[Uid]
    owner: Mapped[str]
    blob_sha256: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"))
    filename: Mapped[str]
    """As first submitted; a job keeps the name it was asked with."""
    probe: Mapped[Document | None]
    created_at: Mapped[CreatedAt]
    keep_until: Mapped[datetime | None]
    """Afterwards it may be deleted; none for as long as the installation keeps recordings."""
    held_at: Mapped[datetime | None]
    """Under legal hold since then: neither it nor its jobs are deleted by anybody."""


_STATE_TIME_CASES = " ".join(
    f"WHEN '{state.value}' THEN {column}" for state, column in STATE_TIMES.items()
)


class JobRow(Base):
    """One request; its state moves only along `pipeline.ledger.jobs.EDGES`."""

    __tablename__ = "jobs"
    __table_args__ = (
        is_one_of("state", JobState, name="state_known"),
        CheckConstraint(f"CASE state {_STATE_TIME_CASES} END IS NOT NULL", name="state_has_time"),
        CheckConstraint(
            "state NOT IN ('succeeded', 'failed', 'canceled') OR end_reason IS NOT NULL",
            name="ended_with_reason",
        ),
        CheckConstraint(
            "recording_id IS NOT NULL OR state IN ('waiting_for_recording', 'failed', 'canceled')",
            name="has_recording_before_queue",
        ),
        CheckConstraint("next_epoch >= 1", name="next_epoch_positive"),
        CheckConstraint("next_start_s >= 0", name="next_start_s_not_negative"),
        is_sha256("portfolio_sha256"),
        Index(
            "ix_jobs_claim",
            "engine",
            "priority",
            "created_at",
            "id",
            postgresql_where=text("state = 'queued'"),
        ),
        Index(None, "owner", "created_at"),
        Index(None, "created_at", "id"),
        Index(None, "recording_id"),
    )

    id: Mapped[Uid]
    owner: Mapped[str]
    recording_id: Mapped[JobId | None] = mapped_column(ForeignKey("recordings.id"))
    filename: Mapped[str]
    objective: Mapped[str]
    title: Mapped[str | None]
    event_date: Mapped[date | None]
    engine: Mapped[str]
    options: Mapped[Document]
    portfolio_sha256: Mapped[str]
    state: Mapped[str]
    waiting_at: Mapped[datetime | None]
    queued_at: Mapped[datetime | None]
    running_at: Mapped[datetime | None]
    canceling_at: Mapped[datetime | None]
    finalizing_at: Mapped[datetime | None]
    succeeded_at: Mapped[datetime | None]
    failed_at: Mapped[datetime | None]
    canceled_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    next_epoch: Mapped[int] = mapped_column(server_default=text("1"))
    """The number that the next claim opens."""
    end_reason: Mapped[str | None]
    """An open set: no check, so that a later release may add reasons."""
    end_detail: Mapped[str | None]
    priority: Mapped[int] = mapped_column(server_default=text("0"))
    """Smaller is claimed first."""
    not_before: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]
    next_start_s: Mapped[int | None]
    """Where the next claim starts, as a rerun asked; none for the start of the options."""
    probe: Mapped[Document | None]
    """The recording with the streams that the caller chose; none where it is the recording's."""
    ready_by: Mapped[datetime | None]
    """When its brief is wanted."""
    keep_until: Mapped[datetime | None]
    """Afterwards it may be deleted; none for as long as the installation keeps jobs."""
    held_at: Mapped[datetime | None]
    """Under legal hold since then."""


class HoldingRow(Base):
    """One position of the portfolio as it was when the job was asked for."""

    __tablename__ = "holdings"
    __table_args__ = (
        UniqueConstraint("job_id", "position"),
        CheckConstraint(
            "weight_pct NOT IN ('NaN', 'Infinity', '-Infinity')", name="weight_pct_finite"
        ),
    )

    job_id: Mapped[JobId] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    name: Mapped[str]
    ticker: Mapped[str | None]
    exchange: Mapped[str | None]
    currency: Mapped[str]
    asset_type: Mapped[str]
    weight_pct: Mapped[Decimal] = mapped_column(Numeric())
    aliases: Mapped[list[str]]
    search_text: Mapped[str] = mapped_column(server_default=text("''"))
    """Its names, folded as `pipeline.ledger.words` does."""
