"""Table of uploads under way, so that nothing accepted is lost and nothing half-done is kept."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, JobId, Uid


class UploadRow(Base):
    """An intent to store bytes; written before the first byte, closed after the last row."""

    __tablename__ = "uploads"
    __table_args__ = (
        CheckConstraint(
            "recording_id IS NULL OR closed_at IS NOT NULL", name="recording_when_closed"
        ),
        CheckConstraint("blob_sha256 IS NULL OR closed_at IS NULL", name="blob_while_open"),
        Index(
            "ix_uploads_blob_open",
            "blob_sha256",
            postgresql_where=text("blob_sha256 IS NOT NULL"),
        ),
    )

    id: Mapped[Uid]
    owner: Mapped[str]
    filename: Mapped[str]
    blob_sha256: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    """What an open upload is about to store; whoever removes unnamed bytes spares these."""
    recording_id: Mapped[JobId | None] = mapped_column(ForeignKey("recordings.id"))
    """What a finished upload became; none where it was abandoned."""
    created_at: Mapped[CreatedAt]
    closed_at: Mapped[datetime | None]
