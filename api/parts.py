"""An upload that comes in parts: written under a lock, synced, and counted only then.

The file is synced and the row moved on at least every 64 MiB, or with the first bytes after 5 s,
and at the end of a part. What a killed process wrote beyond that is cut off when the upload goes
on, so that the offset is always one of synced bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO

from api.errors import Refusal
from api.service import Service
from pipeline import intake
from pipeline.errors import MediaStopped, RecordingRefused, UploadTooLarge
from pipeline.intake import Received
from pipeline.ledger import uploads
from pipeline.ledger.database import Transaction
from pipeline.ledger.errors import BlobMissing, UploadGone
from pipeline.ledger.recordings import Recording
from pipeline.ledger.uploads import Upload

SYNC_BYTES = 64 << 20
SYNC_S = 5.0

READ_BYTES = 1 << 20

CHECKSUMS = ("sha1", "sha256")


@dataclass(frozen=True, kw_only=True)
class Checksum:
    """What a client says that a part's bytes are."""

    algorithm: str
    digest: bytes


def begin(
    service: Service, *, owner: str, filename: str, metadata: str | None, length_bytes: int
) -> Upload:
    """The row, then an empty file that would survive a loss of power."""
    upload = uploads.begin(
        service.database,
        owner=owner,
        filename=filename,
        metadata=metadata,
        length_bytes=length_bytes,
    )
    path = service.blobs.begin(upload.id)
    with intake.disk_errors():
        path.touch()
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return upload


def stored(service: Service, upload: Upload) -> Upload:
    """The same with an offset that the file bears out: a lost file has to be sent again."""
    if not upload.is_open or upload.sha256 is not None:
        return upload
    path = service.blobs.begin(upload.id)
    if not path.exists():
        # It may have been named between the look at the row and the look at the file.
        upload = uploads.get(service.database, upload.id, owner=None)
        if not upload.is_open or upload.sha256 is not None:
            return upload
    size_bytes = path.stat().st_size if path.exists() else 0
    return replace(upload, offset_bytes=min(upload.offset_bytes, size_bytes))


@contextmanager
def holding(service: Service, upload_id: str) -> Iterator[tuple[Upload, FileIO | None]]:
    """The upload and its file, which nobody else writes to while in the block.

    The lock is the file's and goes with the process that holds it. No file where there is nothing
    left to write or to lock. Raises Refusal where somebody else holds it, UploadGone where it has
    ended.
    """
    upload = uploads.get(service.database, upload_id, owner=None)
    file = _open(service, upload) if upload.is_open else None
    try:
        if file is not None:
            _lock(file)
            # Whoever held it before may have finished or ended it.
            upload = uploads.get(service.database, upload_id, owner=None)
        if not upload.is_open and upload.recording_id is None:
            raise UploadGone
        yield stored(service, upload), file
    finally:
        if file is not None:
            file.close()


def write(
    service: Service,
    upload: Upload,
    file: FileIO,
    chunks: Iterable[bytes],
    *,
    checksum: Checksum | None,
) -> Upload:
    """Append what comes; returns the upload as it stands then.

    What came before a connection broke is kept, unless it was to be checked as a whole. Raises
    Refusal, UploadTooLarge, DiskFull, UploadGone and what `chunks` raises.
    """
    part = _Part(service, upload, file)
    try:
        with intake.disk_errors():
            if checksum is None:
                return part.take(chunks)
            return part.take_checked(chunks, checksum)
    finally:
        part.close()


def finish(
    service: Service, upload: Upload, *, then: Callable[[Transaction, Recording], None]
) -> Recording:
    """Make a recording of a whole upload that is held; may be repeated after any failure.

    What is refused is removed, and the reason is kept. Raises as `intake.keep` does.
    """
    uploads.renew(service.database, upload.id)
    received = Received(
        upload_id=upload.id,
        filename=upload.filename,
        sha256=upload.sha256 or _sha256(service, upload),
        size_bytes=upload.length_bytes,
    )
    try:
        probe = intake.examine(service.blobs, received, limits=service.settings.media)
    except BlobMissing:
        uploads.advance(service.database, upload.id, offset_bytes=0)
        raise Refusal(
            "upload_offset_wrong", "the bytes are no longer there; send them again from 0"
        ) from None
    except (RecordingRefused, MediaStopped) as refused:
        service.blobs.discard(upload.id)
        uploads.refuse(service.database, upload.id, code=refused.code, message=refused.message)
        raise
    return intake.store(service.database, service.blobs, received, probe=probe, then=then)


class _Part:
    """What is being appended, and how much of it counts."""

    def __init__(self, service: Service, upload: Upload, file: FileIO) -> None:
        self._service = service
        self._upload = upload
        self._file = file
        self._digest = service.digests.take(upload.id, offset_bytes=upload.offset_bytes)
        self._mark()
        self._cut_off()

    def take(self, chunks: Iterable[bytes]) -> Upload:
        try:
            for chunk in chunks:
                self._write(chunk)
                is_much = self._position - self._upload.offset_bytes >= SYNC_BYTES
                if is_much or time.monotonic() - self._counted_at >= SYNC_S:
                    self._count()
        except Refusal:
            self._count()
            raise
        return self._count()

    def take_checked(self, chunks: Iterable[bytes], checksum: Checksum) -> Upload:
        made = hashlib.new(checksum.algorithm, usedforsecurity=False)
        for chunk in chunks:
            self._write(chunk)
            made.update(chunk)
        if not hmac.compare_digest(made.digest(), checksum.digest):
            raise Refusal(
                "checksum_wrong",
                f"the part is not what its {checksum.algorithm} says; send it again",
            )
        return self._count()

    def close(self) -> None:
        """Leave no bytes that do not count; remember the digest of those that do."""
        self._cut_off()
        if self._digest is not None:
            self._service.digests.put(
                self._upload.id, self._digest, offset_bytes=self._upload.offset_bytes
            )

    def _write(self, chunk: bytes) -> None:
        self._position += len(chunk)
        if self._position > self._upload.length_bytes:
            raise UploadTooLarge(bytes_max=self._upload.length_bytes)
        left = memoryview(chunk)
        while left:
            left = left[self._file.write(left) :]
        if self._digest is not None:
            self._digest.update(chunk)

    def _count(self) -> Upload:
        os.fsync(self._file.fileno())
        self._upload = uploads.advance(
            self._service.database, self._upload.id, offset_bytes=self._position
        )
        self._mark()
        return self._upload

    def _mark(self) -> None:
        self._counted_at = time.monotonic()
        self._counted_digest = None if self._digest is None else self._digest.copy()

    def _cut_off(self) -> None:
        self._position = self._upload.offset_bytes
        self._digest = None if self._counted_digest is None else self._counted_digest.copy()
        self._file.truncate(self._position)
        self._file.seek(self._position)


def _sha256(service: Service, upload: Upload) -> str:
    """Of bytes that were hashed as they came, or else of the file, which is read once more."""
    digest = service.digests.take(upload.id, offset_bytes=upload.length_bytes)
    if digest is None:
        digest = hashlib.sha256()
        with service.blobs.begin(upload.id).open("rb") as file:
            while chunk := file.read(READ_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _open(service: Service, upload: Upload) -> FileIO | None:
    """None where the bytes have been stored under their own name already."""
    path = service.blobs.begin(upload.id)
    created = os.O_CREAT if upload.sha256 is None else 0
    try:
        return FileIO(os.open(path, os.O_RDWR | created, 0o666), "r+")
    except FileNotFoundError:
        return None


def _lock(file: FileIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refusal(
            "upload_busy", "another request is writing to this upload; ask again for its offset"
        ) from None
