"""Recordings: uploaded under an intent, shared as bytes, owned by whoever submitted them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger import cursors
from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import RecordingUnknown, UploadUnknown
from pipeline.ledger.ids import is_id
from pipeline.ledger.schema import BlobRow, RecordingRow, UploadRow
from pipeline.ledger.uploads import LIFETIME
from pipeline.records import Probe


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One submitted media file, as its owner sees it."""

    id: str
    owner: str
    filename: str
    """Base name as first submitted; untrusted text."""
    sha256: str
    size_bytes: int
    probe: Probe | None
    created_at: datetime
    is_stored: bool = True
    """Whether OmnAI holds a copy; not of what a local `analyze` read where it lay."""
    keep_until: datetime | None = None
    """Afterwards it may be deleted; none for as long as the installation keeps recordings."""
    held_at: datetime | None = None
    """Under legal hold since then."""


def begin_upload(
    database: Database, *, owner: str, filename: str, lifetime: timedelta = LIFETIME
) -> str:
    """Write the intent and return the upload's id; the first byte is written after this.

    It is given up, and its temporary file removed, after `lifetime` unless `uploads.renew` is
    called before.
    """
    with database.transaction() as session:
        return session.execute(
            insert(UploadRow)
            .values(owner=owner, filename=filename, expires_at=func.now() + lifetime)
            .returning(UploadRow.id)
        ).scalar_one()


def name_upload(database: Database, upload_id: str, *, sha256: str, size_bytes: int) -> None:
    """Say which bytes are about to be stored, before `BlobStore.commit` puts them there.

    Whoever removes bytes that nobody names spares these from here on. Idempotent. Raises
    UploadUnknown.
    """
    with database.transaction() as session:
        if _locked(session, upload_id).recording_id is not None:
            return
        _put_blob(session, sha256, size_bytes, is_stored=False)
        session.execute(
            update(UploadRow).where(UploadRow.id == upload_id).values(blob_sha256=sha256)
        )


def finish_upload(
    database: Database,
    upload_id: str,
    *,
    sha256: str,
    size_bytes: int,
    probe: Probe | None,
    then: Callable[[Session, Recording], None] | None = None,
) -> Recording:
    """Turn stored bytes into a recording; the one that is there, where its owner had it already.

    Idempotent: the same upload again gives the same recording. What `then` writes is committed with
    it or not at all. Raises UploadUnknown.
    """
    with database.transaction() as session:
        upload = _locked(session, upload_id)
        recording_id = upload.recording_id
        if recording_id is None:
            _put_blob(session, sha256, size_bytes, is_stored=True)
            recording_id = _put_recording(session, upload, sha256, probe)
            session.execute(
                update(UploadRow)
                .where(UploadRow.id == upload_id)
                .values(recording_id=recording_id, blob_sha256=None, closed_at=func.now())
            )
        found = _read(session, recording_id)
        if found is None:
            raise RecordingUnknown
        if then is not None:
            then(session, found)
    return found


def abandon_upload(database: Database, upload_id: str) -> None:
    """Close the intent of an upload that will not be finished. Idempotent; after its end, no-op."""
    if not is_id(upload_id):
        return
    with database.transaction() as session:
        session.execute(
            update(UploadRow)
            .where(UploadRow.id == upload_id, UploadRow.closed_at.is_(None))
            .values(blob_sha256=None, closed_at=func.now())
        )


def get(database: Database, recording_id: str, *, owner: str | None) -> Recording:
    """Raises RecordingUnknown, also for another owner's; an owner of none sees all."""
    if not is_id(recording_id):
        raise RecordingUnknown
    with database.transaction() as session:
        found = _read(session, recording_id)
    if found is None or owner not in (None, found.owner):
        raise RecordingUnknown
    return found


def page(
    database: Database,
    *,
    owner: str | None,
    is_held: bool | None = None,
    after: str | None = None,
    limit: int,
) -> tuple[tuple[Recording, ...], str | None]:
    """Newest first, and the cursor of the next page; none after the last. Raises CursorRefused.

    An owner of none sees all.
    """
    wanted = (
        _selected()
        .order_by(RecordingRow.created_at.desc(), RecordingRow.id.desc())
        .limit(limit + 1)
    )
    if owner is not None:
        wanted = wanted.where(RecordingRow.owner == owner)
    if is_held is not None:
        held = RecordingRow.held_at
        wanted = wanted.where(held.is_not(None) if is_held else held.is_(None))
    if after is not None:
        place = tuple_(RecordingRow.created_at, RecordingRow.id)
        wanted = wanted.where(place < cursors.read(after))
    with database.transaction() as session:
        found = [_recording(row, blob) for row, blob in session.execute(wanted).tuples()]
    shown = tuple(found[:limit])
    if len(found) <= limit:
        return shown, None
    return shown, cursors.after(shown[-1].created_at, shown[-1].id)


def _locked(session: Session, upload_id: str) -> UploadRow:
    """The upload, finished or open, until the transaction ends."""
    row = None
    if is_id(upload_id):
        row = session.scalar(select(UploadRow).where(UploadRow.id == upload_id).with_for_update())
    if row is None or (row.closed_at is not None and row.recording_id is None):
        raise UploadUnknown
    return row


def _put_blob(session: Session, sha256: str, size_bytes: int, *, is_stored: bool) -> None:
    """Also locks the row that is there, so that whoever removes unnamed bytes waits or is done."""
    stored_at = func.now() if is_stored else None
    put = insert(BlobRow).values(sha256=sha256, size_bytes=size_bytes, stored_at=stored_at)
    session.execute(
        put.on_conflict_do_update(
            index_elements=[BlobRow.sha256],
            set_={"stored_at": func.coalesce(BlobRow.stored_at, put.excluded.stored_at)},
        )
    )


def _put_recording(session: Session, upload: UploadRow, sha256: str, probe: Probe | None) -> str:
    put = insert(RecordingRow).values(
        owner=upload.owner, blob_sha256=sha256, filename=upload.filename, probe=probe
    )
    return session.execute(
        put.on_conflict_do_update(
            index_elements=[RecordingRow.owner, RecordingRow.blob_sha256],
            set_={"probe": func.coalesce(RecordingRow.probe, put.excluded.probe)},
        ).returning(RecordingRow.id)
    ).scalar_one()


def _read(session: Session, recording_id: str) -> Recording | None:
    wanted = _selected().where(RecordingRow.id == recording_id)
    found = session.execute(wanted).tuples().one_or_none()
    return None if found is None else _recording(*found)


def _selected() -> Select[tuple[RecordingRow, BlobRow]]:
    return select(RecordingRow, BlobRow).join(BlobRow, RecordingRow.blob_sha256 == BlobRow.sha256)


def _recording(row: RecordingRow, blob: BlobRow) -> Recording:
    return Recording(
        id=row.id,
        owner=row.owner,
        filename=row.filename,
        sha256=blob.sha256,
        size_bytes=blob.size_bytes,
        probe=None if row.probe is None else from_document(Probe, row.probe),
        created_at=row.created_at,
        is_stored=blob.stored_at is not None,
        keep_until=row.keep_until,
        held_at=row.held_at,
    )
