"""Table of uploads under way, so that nothing accepted is lost and nothing half-done is kept."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
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
        CheckConstraint("length_bytes >= 1", name="length_positive"),
        CheckConstraint(
            "(length_bytes IS NULL) = (offset_bytes IS NULL)"
            " AND offset_bytes >= 0 AND offset_bytes <= length_bytes",
            name="offset_within_length",
        ),
        CheckConstraint(
            "(refusal_code IS NULL) = (refusal_message IS NULL)"
            " AND (refusal_code IS NULL OR (closed_at IS NOT NULL AND recording_id IS NULL))",
            name="refused_without_recording",
        ),
        Index(
            "ix_uploads_blob_open",
            "blob_sha256",
            postgresql_where=text("blob_sha256 IS NOT NULL"),
        ),
        Index(
            "ix_uploads_open_expires_at",
            "expires_at",
            postgresql_where=text("closed_at IS NULL"),
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
    expires_at: Mapped[datetime] = mapped_column(server_default=text("now() + interval '24 hours'"))
    """When an open one is given up; put off while bytes come."""
    length_bytes: Mapped[int | None] = mapped_column(BigInteger())
    """Of the whole file, where the upload may come in parts; none where it comes at once."""
    offset_bytes: Mapped[int | None] = mapped_column(BigInteger())
    """How many of them are synced."""
    client_metadata: Mapped[str | None]
    """The client's own, as it came; untrusted text."""
    refusal_code: Mapped[str | None]
    refusal_message: Mapped[str | None]
    """Why the whole file became no recording."""
