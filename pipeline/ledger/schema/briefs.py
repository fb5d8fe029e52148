"""Table of the documents that were assembled."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, JobId, is_sha256


class BriefRow(Base):
    """One revision of a job's brief, byte for byte."""

    __tablename__ = "briefs"
    __table_args__ = (
        is_sha256("canonical_sha256"),
        is_sha256("content_sha256"),
        CheckConstraint("revision >= 1", name="revision_positive"),
        CheckConstraint("note_count >= 0", name="note_count_not_negative"),
    )

    job_id: Mapped[JobId] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str]
    canonical_sha256: Mapped[str]
    document: Mapped[bytes]
    """Bytes rather than `jsonb`, which would reorder and reformat what was hashed."""
    release: Mapped[str]
    created_at: Mapped[CreatedAt]
    content_sha256: Mapped[str | None]
    """Of the document without what it compares itself with; none for an older release's."""
    note_count: Mapped[int] = mapped_column(server_default=text("0"))
    """How many notes the job had when it was assembled; more by now means that it is behind."""
