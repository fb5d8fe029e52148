"""Which ended jobs have no brief of their end, or of what people noted since."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, or_, select

from pipeline.ledger.database import Database
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.schema import BriefRow, EpochRow, FindingNoteRow, JobRow


def unpublished(database: Database, *, after_s: float, limit: int) -> tuple[str, ...]:
    """Ids of jobs that ended, or got a note, at least `after_s` ago, the longest ended first.

    A job that never ran has nothing to publish.
    """
    noted = (
        select(FindingNoteRow.job_id, func.count().label("count"))
        .where(FindingNoteRow.at <= func.now() - timedelta(seconds=after_s))
        .group_by(FindingNoteRow.job_id)
        .subquery()
    )
    told = (
        select(BriefRow.note_count)
        .where(BriefRow.job_id == JobRow.id)
        .order_by(BriefRow.revision.desc())
        .limit(1)
        .scalar_subquery()
    )
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
                .outerjoin(noted, noted.c.job_id == JobRow.id)
                .where(
                    JobRow.state.in_([state.value for state in ENDED]),
                    ended.c.at <= func.now() - timedelta(seconds=after_s),
                    or_(
                        func.coalesce(published_at < ended.c.at, True),
                        # Counted and not dated: a brief may be stored after a note it knows not.
                        noted.c.count > told,
                    ),
                )
                .order_by(ended.c.at)
                .limit(limit)
            )
        )
