"""Uploads under way: what has come of one, how long it is kept, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.errors import UploadGone, UploadUnknown
from pipeline.ledger.ids import is_id
from pipeline.ledger.schema import UploadRow

LIFETIME = timedelta(hours=24)
"""An interrupted upload is waited for until the same time of the next day."""

TOLD = timedelta(days=7)
"""How long somebody who comes back is told why there is no recording."""

EXPIRED_AT_ONCE = 100
"""Removed in one transaction."""


@dataclass(frozen=True, kw_only=True)
class UploadRefusal:
    """Why a whole file became no recording."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Upload:
    """One that may come in parts, as its owner sees it."""

    id: str
    owner: str
    filename: str
    """Base name; untrusted text."""
    metadata: str | None
    """The client's own, as it came; untrusted text."""
    length_bytes: int
    offset_bytes: int
    """So many of them are synced."""
    sha256: str | None
    """Of the whole file, from the moment that it is about to be stored until it is."""
    created_at: datetime
    expires_at: datetime
    is_open: bool
    """Whether it may still become a recording: neither finished, refused, abandoned nor expired."""
    recording_id: str | None
    refusal: UploadRefusal | None

    @property
    def is_whole(self) -> bool:
        """Whether every byte has come."""
        return self.offset_bytes == self.length_bytes


def begin(
    database: Database, *, owner: str, filename: str, metadata: str | None, length_bytes: int
) -> Upload:
    """Write the intent; the first byte is written after this."""
    with database.transaction() as session:
        upload_id = session.execute(
            insert(UploadRow)
            .values(
                owner=owner,
                filename=filename,
                client_metadata=metadata,
                length_bytes=length_bytes,
                offset_bytes=0,
                expires_at=func.now() + LIFETIME,
            )
            .returning(UploadRow.id)
        ).scalar_one()
        return _read(session, upload_id)


def get(database: Database, upload_id: str, *, owner: str | None) -> Upload:
    """Raises UploadUnknown, also for another owner's and for one that comes at once."""
    if not is_id(upload_id):
        raise UploadUnknown
    with database.transaction() as session:
        found = _read(session, upload_id)
    if owner not in (None, found.owner):
        raise UploadUnknown
    return found


def advance(database: Database, upload_id: str, *, offset_bytes: int) -> Upload:
    """Say how many bytes are synced, and wait for the others anew. Raises UploadGone.

    What was about to be stored is not any more.
    """
    with database.transaction() as session:
        moved = session.execute(
            update(UploadRow)
            .where(UploadRow.id == upload_id, UploadRow.closed_at.is_(None))
            .values(offset_bytes=offset_bytes, blob_sha256=None, expires_at=func.now() + LIFETIME)
            .returning(UploadRow.id)
        )
        if moved.one_or_none() is None:
            raise UploadGone
        return _read(session, upload_id)


def renew(database: Database, upload_id: str, *, lifetime: timedelta = LIFETIME) -> None:
    """Put off the end of an upload that goes on. Raises UploadGone."""
    with database.transaction() as session:
        renewed = session.execute(
            update(UploadRow)
            .where(UploadRow.id == upload_id, UploadRow.closed_at.is_(None))
            .values(expires_at=func.now() + lifetime)
            .returning(UploadRow.id)
        )
        if renewed.one_or_none() is None:
            raise UploadGone


def refuse(database: Database, upload_id: str, *, code: str, message: str) -> None:
    """Close it with the reason; idempotent, and a no-op after its end."""
    with database.transaction() as session:
        session.execute(
            update(UploadRow)
            .where(UploadRow.id == upload_id, UploadRow.closed_at.is_(None))
            .values(
                blob_sha256=None,
                closed_at=func.now(),
                refusal_code=code,
                refusal_message=message,
            )
        )


def expire(database: Database, discard: Callable[[str], None]) -> int:
    """Close uploads that nobody goes on with, once `discard` has removed their bytes.

    Of any kind, that of a killed process too. Returns how many. What `discard` raises leaves all
    of them open.
    """
    with database.transaction() as session:
        # Two who sweep at once take different ones.
        ended = session.scalars(
            select(UploadRow.id)
            .where(UploadRow.closed_at.is_(None), UploadRow.expires_at < func.now())
            .order_by(UploadRow.expires_at)
            .limit(EXPIRED_AT_ONCE)
            .with_for_update(skip_locked=True)
        ).all()
        for upload_id in ended:
            discard(upload_id)
        session.execute(
            update(UploadRow)
            .where(UploadRow.id.in_(ended))
            .values(blob_sha256=None, closed_at=func.now())
        )
    return len(ended)


def expired(database: Database) -> int:
    """How many `expire` would close."""
    with database.transaction() as session:
        wanted = select(func.count()).where(
            UploadRow.closed_at.is_(None), UploadRow.expires_at < func.now()
        )
        return session.execute(wanted).scalar_one()


def forget(database: Database) -> None:
    """Drop what is known of those that became no recording, once it is of no use to anybody."""
    with database.transaction() as session:
        session.execute(
            delete(UploadRow).where(
                UploadRow.recording_id.is_(None), UploadRow.closed_at < func.now() - TOLD
            )
        )


def unknown(database: Database, upload_ids: Collection[str]) -> tuple[str, ...]:
    """Those of them that could be an upload's id, and are none's."""
    asked = {upload_id for upload_id in upload_ids if is_id(upload_id)}
    with database.transaction() as session:
        return tuple(
            asked.difference(session.scalars(select(UploadRow.id).where(UploadRow.id.in_(asked))))
        )


def closed(database: Database, upload_ids: Collection[str]) -> tuple[str, ...]:
    """Those of them that nobody goes on with; what is no upload is none of them."""
    with database.transaction() as session:
        return tuple(
            session.scalars(
                select(UploadRow.id).where(
                    UploadRow.id.in_([upload_id for upload_id in upload_ids if is_id(upload_id)]),
                    UploadRow.closed_at.is_not(None),
                )
            )
        )


def _read(session: Session, upload_id: str) -> Upload:
    found = (
        session.execute(
            select(UploadRow, UploadRow.expires_at < func.now()).where(
                UploadRow.id == upload_id, UploadRow.length_bytes.is_not(None)
            )
        )
        .tuples()
        .one_or_none()
    )
    if found is None:
        raise UploadUnknown
    row, is_expired = found
    assert row.length_bytes is not None
    assert row.offset_bytes is not None
    refusal = None
    if row.refusal_code is not None:
        refusal = UploadRefusal(code=row.refusal_code, message=row.refusal_message or "")
    return Upload(
        id=row.id,
        owner=row.owner,
        filename=row.filename,
        metadata=row.client_metadata,
        length_bytes=row.length_bytes,
        offset_bytes=row.offset_bytes,
        sha256=row.blob_sha256,
        created_at=row.created_at,
        expires_at=row.expires_at,
        is_open=row.closed_at is None and not is_expired,
        recording_id=row.recording_id,
        refusal=refusal,
    )
