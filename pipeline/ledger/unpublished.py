"""Which ended jobs have no brief of their end yet."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select

from pipeline.ledger.database import Database
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.schema import BriefRow, EpochRow, JobRow


def unpublished(database: Database, *, after_s: float, limit: int) -> tuple[str, ...]:
    """Ids of jobs whose newest epoch ended at least `after_s` ago, the longest ago first.

    A job that never ran has nothing to publish.
    """
    ended = (
        select(EpochRow.job_id, func.max(EpochRow.ended_at).label("at"))
        .group_by(EpochRow.job_id)
        .subquery()
    )
    published_at = (
        select(func.max(BriefRow.created_at)).where(BriefRow.job_id == JobRow.id).scalar_subquery()
    )
    with database.transaction() as session:
        return tuple(
            session.scalars(
                select(JobRow.id)
                .join(ended, ended.c.job_id == JobRow.id)
                .where(
                    JobRow.state.in_([state.value for state in ENDED]),
                    ended.c.at <= func.now() - timedelta(seconds=after_s),
                    func.coalesce(published_at < ended.c.at, True),
                )
                .order_by(ended.c.at)
                .limit(limit)
            )
        )
