"""The assembled documents of a job, revision by revision, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.errors import JobUnknown
from pipeline.ledger.jobs import check_id
from pipeline.ledger.schema import BriefRow, JobRow


@dataclass(frozen=True, kw_only=True)
class StoredBrief:
    """One revision of a job's brief."""

    job_id: str
    revision: int
    """Counted from 1 within the job."""
    status: str
    document: bytes
    """Exactly as it was stored."""
    canonical_sha256: str
    release: str
    """The OmnAI release that assembled it."""
    created_at: datetime


def store(
    database: Database,
    job_id: str,
    *,
    status: str,
    document: bytes,
    canonical_sha256: str,
    release: str,
    content_sha256: str | None = None,
    note_count: int = 0,
) -> int:
    """Add a revision and return its number; the newest again, where it is the same document.

    `content_sha256` is of the document without what it compares itself with, `note_count` says how
    many notes it was assembled from. Raises JobUnknown.
    """
    check_id(job_id)
    with database.transaction() as session:
        # The job's row is what two publishers queue at.
        job = select(JobRow.id).where(JobRow.id == job_id).with_for_update(key_share=True)
        if session.scalar(job) is None:
            raise JobUnknown
        newest = _newest(session, job_id)
        if newest is not None and (newest.document, newest.status, newest.release) == (
            document,
            status,
            release,
        ):
            newest.note_count = max(newest.note_count, note_count)
            return newest.revision
        revision = 1 if newest is None else newest.revision + 1
        session.execute(
            insert(BriefRow).values(
                job_id=job_id,
                revision=revision,
                status=status,
                canonical_sha256=canonical_sha256,
                document=document,
                release=release,
                content_sha256=content_sha256,
                note_count=note_count,
            )
        )
        return revision


def latest(database: Database, job_id: str) -> StoredBrief | None:
    """The newest revision; none where nothing was published yet. Raises JobUnknown for no id."""
    check_id(job_id)
    with database.transaction() as session:
        row = _newest(session, job_id)
    return None if row is None else _stored(row)


def newest_other(database: Database, job_id: str, *, content_sha256: str) -> StoredBrief | None:
    """The newest revision that says something else; none where there is none.

    An older release told no content's digest, so that its briefs all count as something else.
    """
    check_id(job_id)
    with database.transaction() as session:
        row = session.scalar(
            select(BriefRow)
            .where(
                BriefRow.job_id == job_id,
                BriefRow.content_sha256.is_distinct_from(content_sha256),
            )
            .order_by(BriefRow.revision.desc())
            .limit(1)
        )
    return None if row is None else _stored(row)


def _stored(row: BriefRow) -> StoredBrief:
    return StoredBrief(
        job_id=row.job_id,
        revision=row.revision,
        status=row.status,
        document=row.document,
        canonical_sha256=row.canonical_sha256,
        release=row.release,
        created_at=row.created_at,
    )


def _newest(session: Session, job_id: str) -> BriefRow | None:
    return session.scalar(
        select(BriefRow)
        .where(BriefRow.job_id == job_id)
        .order_by(BriefRow.revision.desc())
        .limit(1)
    )
