"""Table of links whose recordings are fetched, so that no link is fetched twice or forgotten."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, JobId, is_sha256


class FetchRow(Base):
    """A job's link and how far its recording is; written with the job, closed when it moves on."""

    __tablename__ = "fetches"
    __table_args__ = (
        CheckConstraint("(url IS NULL) = (ended_at IS NOT NULL)", name="url_while_open"),
        CheckConstraint("(lease IS NULL) = (leased_until IS NULL)", name="lease_has_end"),
        CheckConstraint("lease IS NULL OR ended_at IS NULL", name="lease_while_open"),
        CheckConstraint("attempts >= 0", name="attempts_not_negative"),
        CheckConstraint(
            "received_bytes >= 0 AND (total_bytes IS NULL OR received_bytes <= total_bytes)",
            name="received_within_total",
        ),
        CheckConstraint(
            "(validator IS NULL) = (place_sha256 IS NULL)"
            " AND (validator IS NULL OR total_bytes IS NOT NULL)",
            name="version_whole",
        ),
        is_sha256("place_sha256"),
        Index(
            "ix_fetches_open",
            "created_at",
            "job_id",
            postgresql_where=text("ended_at IS NULL"),
        ),
    )

    job_id: Mapped[JobId] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    host: Mapped[str]
    """Of the link as it was given; all that is shown of it."""
    url: Mapped[str | None]
    """A secret; gone once the job no longer waits."""
    upload_id: Mapped[JobId | None] = mapped_column(ForeignKey("uploads.id"))
    """Under which the bytes lie that have come."""
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    not_before: Mapped[datetime | None]
    """When the next attempt may begin; none where at once."""
    lease: Mapped[JobId | None]
    """Names the attempt that holds it; another one that takes over has another."""
    leased_until: Mapped[datetime | None]
    received_bytes: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """Synced ones, so that a later attempt may rely on them."""
    total_bytes: Mapped[int | None] = mapped_column(BigInteger)
    validator: Mapped[str | None]
    """The strong entity tag or the date that names the version that is coming."""
    place_sha256: Mapped[str | None]
    """Digest of where that version came from."""
    begun_at: Mapped[datetime | None]
    """When its first attempt began; the time limit counts from here."""
    ended_at: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]
