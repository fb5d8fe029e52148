"""Table of who asked for a job to run again, from where and why."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, JobId


class RerunRow(Base):
    """One request; its epoch exists once a worker has claimed the job.

    Where it was canceled before that, the next request stands for the same epoch number.
    """

    __tablename__ = "reruns"
    __table_args__ = (
        CheckConstraint("epoch >= 1", name="epoch_positive"),
        CheckConstraint("start_s >= 0", name="start_s_not_negative"),
        Index(None, "job_id", "epoch"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    job_id: Mapped[JobId] = mapped_column(ForeignKey("jobs.id"))
    epoch: Mapped[int]
    start_s: Mapped[int]
    reason: Mapped[str]
    requested_by: Mapped[str]
    requested_at: Mapped[CreatedAt]
