"""The one sweep: deletes what has expired, and removes the bytes that no row names.

Safe beside uploads, workers and other sweeps, on as many hosts as there are. A blob goes under the
lock of its row: whoever is about to store the same bytes writes that row first, and so either is
seen or waits until the file is gone. The row first says that nothing is stored, then the file goes,
then the row: a sweep that is killed leaves a file too many, never one too few. What is older than
anything that this database tells of was put there under another one, and is left alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from sqlalchemy import Select, case, delete, exists, func, or_, select, text, union_all, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger import audit, deletion, idempotency, keeping, uploads
from pipeline.ledger.blobs import BlobStore
from pipeline.ledger.database import Database
from pipeline.ledger.folders import Stored
from pipeline.ledger.schema import (
    AuditRow,
    BlobRow,
    EpochRow,
    FrameRow,
    JobRow,
    RecordingRow,
    UploadRow,
)
from pipeline.ledger.storage import Storage
from pipeline.settings import Settings

AGE = timedelta(hours=24)
"""Younger bytes are spared, whoever names them: as long as an interrupted upload is waited for. A
frame is kept seconds before its row, and clocks of hosts and buckets differ by minutes."""

AT_ONCE = 10_000
"""Names that are compared with the database in one statement."""

OWNER = "omnai"
"""Whom the audit names where nobody asked."""


@dataclass(kw_only=True)
class Swept:
    """What a sweep has removed, or would."""

    jobs: int = 0
    recordings: int = 0
    uploads: int = 0
    """Given up, or left by a process that was killed."""
    blobs: int = 0
    frames: int = 0
    """Whose bytes are gone; a dry run also counts those that a bucket lays aside first."""
    parts: int = 0
    """Files that a killed process was writing."""
    freed_bytes: int = 0


def sweep(
    database: Database, storage: Storage, settings: Settings, *, is_dry_run: bool = False
) -> Swept:
    """Remove all that may go; a dry run only counts it, and what expired jobs name not yet.

    May be repeated, and ended at any moment. Raises DatabaseUnavailable, BlobsUnavailable and
    OSError; what went before stays gone.
    """
    return _Sweep(database, storage, settings, is_dry_run).run()


class _Sweep:
    def __init__(
        self, database: Database, storage: Storage, settings: Settings, is_dry_run: bool
    ) -> None:
        self._database = database
        self._blobs, self._frames = storage.blobs, storage.frames
        self._settings = settings
        self._is_dry_run = is_dry_run
        self._since = time.time() - AGE.total_seconds()
        self._swept = Swept()

    def run(self) -> Swept:
        swept, settings = self._swept, self._settings
        jobs = keeping.expired_jobs(settings.keep_jobs_days)
        swept.jobs = self._delete(jobs, "job_expired")
        recordings = keeping.expired_recordings(settings.keep_recordings_days)
        swept.recordings = self._delete(recordings, "recording_expired")
        born_at = _born_at(self._database)
        self._give_up_uploads(born_at)
        self._release_blobs()
        self._remove_blobs(born_at)
        self._remove_frames(born_at)
        swept.parts = self._frames.clear_parts(since=self._since, is_dry_run=self._is_dry_run)
        if not self._is_dry_run:
            self._blobs.clear_staged()
            uploads.forget(self._database)
            idempotency.forget(self._database)
        return swept

    def _delete(self, expired: Select[tuple[str]], action: str) -> int:
        with self._database.transaction() as session:
            found = session.scalars(expired).all()
        if self._is_dry_run:
            return len(found)
        return sum(
            deletion.delete_expired(self._database, expired, row_id, _recorded(action, row_id))
            for row_id in found
        )

    def _give_up_uploads(self, born_at: float) -> None:
        old = self._blobs.under_way(after=born_at, since=self._since)
        left = [
            *uploads.closed(self._database, self._blobs.under_way()),
            *uploads.unknown(self._database, old),
        ]
        if self._is_dry_run:
            self._swept.uploads = uploads.expired(self._database) + len(left)
            return
        self._swept.uploads = uploads.expire(self._database, self._blobs.discard) + len(left)
        for upload_id in left:
            self._blobs.discard(upload_id)

    def _release_blobs(self) -> None:
        """Those of which there is a row that nothing else names."""
        for stored in _unnamed(self._database):
            if self._is_dry_run or release(self._database, self._blobs, stored.sha256):
                self._count(stored)

    def _remove_blobs(self, born_at: float) -> None:
        """Those without a row."""
        for several in _several(self._blobs.untouched(since=self._since)):
            with self._database.transaction() as session:
                wanted = select(BlobRow.sha256).where(BlobRow.sha256.in_(_names(several)))
                known = set(session.scalars(wanted))
            for stored in several:
                if stored.sha256 in known or stored.changed_at < born_at:
                    continue
                if self._is_dry_run or remove_unknown(self._database, self._blobs, stored.sha256):
                    self._count(stored)

    def _remove_frames(self, born_at: float) -> None:
        """A frame that is kept anew is touched before its row is written, and so spared."""
        for several in _several(self._frames.untouched(since=self._since)):
            with self._database.transaction() as session:
                wanted = select(FrameRow.sha256).where(FrameRow.sha256.in_(_names(several)))
                named = set(session.scalars(wanted.distinct()))
            for stored in several:
                if stored.sha256 in named or stored.changed_at < born_at:
                    continue
                if self._is_dry_run or self._frames.remove(stored.sha256, since=self._since):
                    self._swept.frames += 1
                    self._swept.freed_bytes += stored.size_bytes

    def _count(self, stored: Stored) -> None:
        self._swept.blobs += 1
        self._swept.freed_bytes += stored.size_bytes


def release(database: Database, blobs: BlobStore, sha256: str) -> bool:
    """Remove a blob and its row; false where somebody names it, or is about to."""
    with database.transaction() as session:
        if not _lock_unnamed(session, sha256):
            return False
        session.execute(update(BlobRow).where(BlobRow.sha256 == sha256).values(stored_at=None))
    with database.transaction() as session:
        if not _lock_unnamed(session, sha256):
            return False
        blobs.remove(sha256)
        session.execute(delete(BlobRow).where(BlobRow.sha256 == sha256))
    return True


def remove_unknown(database: Database, blobs: BlobStore, sha256: str) -> bool:
    """Remove a blob that has no row; false where it has one by now.

    The row that is written and taken back holds up whoever is about to store the same bytes.
    """
    with database.transaction() as session:
        _wait_for_storage(session)
        made = insert(BlobRow).values(sha256=sha256, size_bytes=0).on_conflict_do_nothing()
        if session.scalar(made.returning(BlobRow.sha256)) is None:
            return False
        blobs.remove(sha256)
        session.execute(delete(BlobRow).where(BlobRow.sha256 == sha256))
    return True


def _lock_unnamed(session: Session, sha256: str) -> bool:
    """Looked at once it is locked, by a statement of its own: one that waits sees the past."""
    _wait_for_storage(session)
    row = select(BlobRow.sha256).where(BlobRow.sha256 == sha256)
    if session.scalar(row.with_for_update(skip_locked=True)) is None:
        return False
    return session.scalar(_unnamed_rows().where(BlobRow.sha256 == sha256)) is not None


def _wait_for_storage(session: Session) -> None:
    """The lock has to last as long as the storage takes to answer."""
    session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))


def _unnamed(database: Database) -> Iterator[Stored]:
    after = ""
    while True:
        with database.transaction() as session:
            wanted = _unnamed_rows().where(BlobRow.sha256 > after).order_by(BlobRow.sha256)
            found = session.execute(wanted.limit(AT_ONCE)).all()
        for sha256, size_bytes in found:
            yield Stored(sha256=sha256, size_bytes=size_bytes, changed_at=0.0)
        if len(found) < AT_ONCE:
            return
        after = found[-1].sha256


def _unnamed_rows() -> Select[tuple[str, int]]:
    old = func.now() - AGE
    size_bytes = case((BlobRow.stored_at.is_(None), 0), else_=BlobRow.size_bytes)
    return select(BlobRow.sha256, size_bytes).where(
        BlobRow.created_at < old,
        or_(BlobRow.stored_at.is_(None), BlobRow.stored_at < old),
        ~exists().where(RecordingRow.blob_sha256 == BlobRow.sha256),
        ~exists().where(UploadRow.blob_sha256 == BlobRow.sha256),
    )


def _born_at(database: Database) -> float:
    """When the oldest of what the database tells of happened, in seconds of the epoch."""
    oldest = union_all(
        select(func.min(AuditRow.at).label("at")),
        select(func.min(JobRow.created_at)),
        select(func.min(EpochRow.started_at)),
        select(func.min(UploadRow.created_at)),
        select(func.min(BlobRow.created_at)),
    ).subquery()
    with database.transaction() as session:
        found = session.scalar(select(func.extract("epoch", func.min(oldest.c.at))))
    return math.inf if found is None else float(found)


def _recorded(action: str, row_id: str) -> Callable[[Session], None]:
    def write(session: Session) -> None:
        audit.put(session, actor=None, owner=OWNER, action=action, subject=row_id, detail={})

    return write


def _names(several: Iterable[Stored]) -> list[str]:
    return [stored.sha256 for stored in several]


def _several(found: Iterator[Stored]) -> Iterator[list[Stored]]:
    while several := list(islice(found, AT_ONCE)):
        yield several
