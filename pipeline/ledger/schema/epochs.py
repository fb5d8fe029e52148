"""Tables of what ran: epochs, units and gaps."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    Double,
    ForeignKey,
    Index,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import (
    Base,
    CreatedAt,
    Document,
    JobId,
    UnderEpoch,
    is_one_of,
    is_sha256,
    under_epoch,
)
from pipeline.records import Decision, Phase


class EpochRow(Base):
    """One native session; the row that every writer under it locks first."""

    __tablename__ = "epochs"
    __table_args__ = (
        is_one_of("phase", Phase, name="phase_known"),
        CheckConstraint("number >= 1", name="number_positive"),
        CheckConstraint("start_s >= 0", name="start_s_not_negative"),
        CheckConstraint("(ended_at IS NULL) = (end_reason IS NULL)", name="ended_with_reason"),
        CheckConstraint("ended_at IS NULL OR fenced_at IS NOT NULL", name="ended_is_fenced"),
        CheckConstraint("released_at IS NULL OR ended_at IS NOT NULL", name="released_is_ended"),
        Index(
            "uq_epochs_slot_unreleased",
            "slot",
            unique=True,
            postgresql_where=text("released_at IS NULL"),
        ),
    )

    job_id: Mapped[JobId] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[Document]
    prompt_sha256: Mapped[str]
    start_s: Mapped[int]
    slot: Mapped[str]
    """A GPU's UUID, or host and slot number where there is no GPU."""
    host: Mapped[str]
    pid: Mapped[int]
    started_at: Mapped[CreatedAt]
    alive_at: Mapped[CreatedAt]
    """Stamped by a thread of the process: it lives."""
    progress_at: Mapped[CreatedAt]
    """Stamped by the loop: it gets on with `phase`."""
    phase: Mapped[str]
    last_sequence: Mapped[int | None]
    """The newest completed unit."""
    fenced_at: Mapped[datetime | None]
    """Nobody may write under this epoch any more."""
    released_at: Mapped[datetime | None]
    """Its process has reset the engine, or is gone; the slot is free."""
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
    end_detail: Mapped[str | None]
    media_end: Mapped[Document | None]
    session_end: Mapped[Document | None]


class UnitRow(UnderEpoch, Base):
    """One completed unit; committed before the next one is fed."""

    __tablename__ = "units"
    __table_args__ = (
        under_epoch(),
        is_one_of("decision", Decision, name="decision_known"),
        is_sha256("payload_sha256"),
        CheckConstraint("sequence >= 0", name="sequence_not_negative"),
        CheckConstraint("(second IS NULL) = (drain IS NOT NULL)", name="second_unless_drain"),
        CheckConstraint("drain BETWEEN 1 AND 8", name="drain_in_range"),
        CheckConstraint("start_ms <= end_ms", name="interval_forward"),
        CheckConstraint(
            "real_samples >= 0 AND filled_samples >= 0 AND synthetic_samples >= 0"
            " AND real_samples + filled_samples + synthetic_samples = 16000",
            name="samples_make_a_second",
        ),
        CheckConstraint("frame_ms IS NULL OR held_frame_ms IS NULL", name="frame_own_or_held"),
        # NaN sorts above Infinity in PostgreSQL, so that one comparison refuses both.
        CheckConstraint("rms_dbfs > '-Infinity' AND rms_dbfs < 'Infinity'", name="rms_dbfs_finite"),
        Index(
            "uq_units_second",
            "job_id",
            "epoch",
            "second",
            unique=True,
            postgresql_where=text("second IS NOT NULL"),
        ),
    )

    sequence: Mapped[int] = mapped_column(primary_key=True)
    second: Mapped[int | None]
    drain: Mapped[int | None]
    start_ms: Mapped[int]
    end_ms: Mapped[int]
    real_samples: Mapped[int]
    filled_samples: Mapped[int]
    synthetic_samples: Mapped[int]
    frame_ms: Mapped[int | None]
    held_frame_ms: Mapped[int | None]
    rms_dbfs: Mapped[float | None] = mapped_column(Double())
    payload_sha256: Mapped[str]
    generation_id: Mapped[str | None]
    decision: Mapped[str]
    text: Mapped[str]
    is_end_of_turn: Mapped[bool]
    tokens: Mapped[int]
    window_start_sequence: Mapped[int]
    cached_tokens: Mapped[int | None]
    decode_ms: Mapped[float] = mapped_column(Double())
    queue_wait_ms: Mapped[float] = mapped_column(Double())
    inference_ms: Mapped[float] = mapped_column(Double())
    """By a monotonic clock; the two moments below are wall clock and may step."""
    inference_started_at: Mapped[datetime]
    inference_ended_at: Mapped[datetime]
    emitted_at: Mapped[datetime]
    committed_at: Mapped[CreatedAt]
    engine_clocks: Mapped[Document | None]
    """None for an engine that does not tell them apart."""
    ledger_ms: Mapped[float | None] = mapped_column(Double())
    """How long this row's own write took; written with the next one, none until then."""
    total_ms: Mapped[float | None] = mapped_column(Double())
    """From the hand-over to the engine to the end of that write; none as above."""


class GapRow(UnderEpoch, Base):
    """A stretch in which no chosen stream has anything; the unit index jumps over it."""

    __tablename__ = "gaps"
    __table_args__ = (
        under_epoch(),
        CheckConstraint("start_ms < end_ms", name="interval_forward"),
    )

    start_ms: Mapped[int] = mapped_column(primary_key=True)
    end_ms: Mapped[int]
