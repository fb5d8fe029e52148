"""What a whole file goes through, whoever brought it: written, hashed, synced, probed, named."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pipeline.characters import is_control
from pipeline.errors import DiskFull, OmnaiError, UploadTooLarge
from pipeline.ledger import recordings, uploads
from pipeline.ledger.blobs import BlobStore
from pipeline.ledger.database import Database, Transaction
from pipeline.ledger.recordings import Recording
from pipeline.media_child import MediaChild
from pipeline.records import Probe
from pipeline.settings import MediaLimits

DEFAULT_NAME = "recording"

FILENAME_CHARS_MAX = 255
"""As long as a file's name can be on the usual file systems."""

PROBE_EDGE_PX = 448
"""No picture is decoded in a probe; the media process wants an edge all the same."""

RECEIVING = timedelta(hours=1)
"""What a killed process was writing is given up this long after its last bytes."""

RENEW_S = 300.0
"""How often that is put off; many would have to fail."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A file that is whole and synced under its temporary name, and belongs to nobody yet."""

    upload_id: str
    filename: str
    sha256: str
    size_bytes: int


def receive(
    database: Database,
    blobs: BlobStore,
    chunks: Iterable[bytes],
    *,
    owner: str,
    filename: str,
    bytes_max: int,
) -> Received:
    """Write what comes; whatever goes wrong removes the temporary file, which is ours.

    Raises UploadTooLarge, DiskFull and what `chunks` raises.
    """
    upload_id = recordings.begin_upload(
        database, owner=owner, filename=filename, lifetime=RECEIVING
    )
    digest = hashlib.sha256()
    size_bytes = 0
    renewed_at = time.monotonic()
    try:
        with disk_errors(), blobs.begin(upload_id).open("wb") as file:
            for chunk in chunks:
                size_bytes += len(chunk)
                if size_bytes > bytes_max:
                    raise UploadTooLarge(bytes_max=bytes_max)
                digest.update(chunk)
                file.write(chunk)
                if time.monotonic() - renewed_at > RENEW_S:
                    uploads.renew(database, upload_id, lifetime=RECEIVING)
                    renewed_at = time.monotonic()
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _drop(database, blobs, upload_id)
        raise
    return Received(
        upload_id=upload_id, filename=filename, sha256=digest.hexdigest(), size_bytes=size_bytes
    )


def keep(
    database: Database,
    blobs: BlobStore,
    received: Received,
    *,
    limits: MediaLimits,
    then: Callable[[Transaction, Recording], None] | None = None,
) -> Recording:
    """Probe and store it; a recording that cannot be analysed is refused and removed.

    What `then` writes is committed with the recording or not at all.
    Always probed, also where these bytes are known: the time taken must not tell.
    Raises RecordingRefused, MediaStopped and DiskFull.
    """
    try:
        uploads.renew(database, received.upload_id)  # a probe may take hours
        probe = examine(blobs, received, limits=limits)
    except BaseException:
        drop(database, blobs, received)
        raise
    return store(database, blobs, received, probe=probe, then=then)


def examine(blobs: BlobStore, received: Received, *, limits: MediaLimits) -> Probe:
    """Probe it in the media process; removes nothing. Raises RecordingRefused, MediaStopped.

    Also what a process had named and stored when it was killed. Raises BlobMissing where the bytes
    are nowhere.
    """
    path = blobs.begin(received.upload_id)
    if path.exists():
        return _probe(path, limits)
    with blobs.local(received.sha256) as path:
        return _probe(path, limits)


def store(
    database: Database,
    blobs: BlobStore,
    received: Received,
    *,
    probe: Probe,
    then: Callable[[Transaction, Recording], None] | None = None,
) -> Recording:
    """Turn what was examined into a recording; may be repeated. Raises DiskFull."""
    recordings.name_upload(
        database, received.upload_id, sha256=received.sha256, size_bytes=received.size_bytes
    )
    with disk_errors():
        blobs.commit(received.upload_id, received.sha256)
    # From here on the bytes may be another recording's too: nothing below removes them.
    return recordings.finish_upload(
        database,
        received.upload_id,
        sha256=received.sha256,
        size_bytes=received.size_bytes,
        probe=probe,
        then=then,
    )


def drop(database: Database, blobs: BlobStore, received: Received) -> None:
    """For a file that is not needed, or refused. Idempotent."""
    _drop(database, blobs, received.upload_id)


def sweep(database: Database, blobs: BlobStore) -> int:
    """Give up uploads that nobody goes on with, and remove what they left on this machine.

    Returns how many were given up. Each machine that takes uploads sweeps its own temporary files.
    """
    count = uploads.expire(database, blobs.discard)
    for upload_id in uploads.closed(database, blobs.under_way()):
        blobs.discard(upload_id)
    return count


def clean_filename(given: str | None) -> str:
    """A base name to show and to offer: no folders, no control or direction characters."""
    base = (given or "").replace("\\", "/").rpartition("/")[2]
    kept = "".join(character for character in base if not is_control(character)).strip(" .")
    if len(kept) > FILENAME_CHARS_MAX:
        stem, dot, ending = kept.rpartition(".")
        ending = dot + ending if 0 < len(ending) <= 10 else ""
        kept = (stem if ending else kept)[: FILENAME_CHARS_MAX - len(ending)] + ending
    return kept or DEFAULT_NAME


@contextmanager
def disk_errors() -> Iterator[None]:
    """A full disk as DiskFull; other errors of the disk are nobody's to answer for."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull from error
        raise


def _drop(database: Database, blobs: BlobStore, upload_id: str) -> None:
    blobs.discard(upload_id)
    recordings.abandon_upload(database, upload_id)


def _probe(path: Path, limits: MediaLimits) -> Probe:
    with MediaChild(
        path, limits=limits, longest_edge_px=PROBE_EDGE_PX, is_probe_only=True
    ) as media:
        for event in media:
            if isinstance(event, Probe):
                return event
    raise OmnaiError("the media process gave no probe")
