"""Recordings in a bucket: uploaded from a local file, staged into one where a file is needed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pipeline.ledger.blobs import BlobStore, Pulse, blob_name
from pipeline.ledger.bringing import Bringing
from pipeline.ledger.bucket import Bucket, fingerprint
from pipeline.ledger.errors import BlobDamaged, BlobMissing, StorageFull
from pipeline.ledger.folders import Stored, digest_in, is_ours

STAGED = "staged"

_AFTER_BLOBS = "g"
"""Keys are listed in order, and those of blobs begin with a digit or a letter up to f."""

_STAGED_NAME = re.compile("[0-9a-f]{32}")


class BucketBlobs(BlobStore):
    """Objects `ab/abcdef…`; uploads under way and staged copies are files under `root`.

    A staged copy belongs to one block of one process and goes with it. What a process that was
    killed has left goes with the next one that stages in the same folder.
    """

    def __init__(self, root: Path, bucket: Bucket) -> None:
        super().__init__(root)
        self._bucket = bucket

    def commit(self, upload_id: str, sha256: str) -> None:
        part, name = self._incoming(upload_id), blob_name(sha256)
        try:
            found = fingerprint(part)
        except FileNotFoundError:
            # This call may repeat one that got as far as the removal.
            with suppress(BlobMissing):
                self._bucket.size(name)
                return
            raise
        if found.sha256 != sha256:
            raise BlobDamaged("the upload is not what it was when it was hashed; send it again")
        if not self._bucket.holds(name, part, found):
            self._bucket.upload(name, part, found)
        part.unlink(missing_ok=True)

    @contextmanager
    def local(self, sha256: str, *, pulse: Pulse = lambda has_come: None) -> Iterator[Path]:
        """Raises StorageFull where the disk has no room for it."""
        name = blob_name(sha256)
        folder = self._root / STAGED
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        with _claimed(folder) as path:
            self._bring(name, sha256, path, pulse)
            yield path

    def size(self, sha256: str) -> int:
        return self._bucket.size(blob_name(sha256))

    def read(self, sha256: str, *, start: int, end: int) -> Iterator[bytes]:
        name = blob_name(sha256)
        if start == end:
            return iter(())
        return self._bucket.open(name, start=start, end=end)

    def untouched(self, *, since: float) -> Iterator[Stored]:
        for found in self._bucket.listed():
            if found.key >= _AFTER_BLOBS:
                return
            folder, _, name = found.key.partition("/")
            digest = digest_in(name, "")
            if digest is not None and digest[:2] == folder and found.modified_at < since:
                yield Stored(
                    sha256=digest, size_bytes=found.size_bytes, changed_at=found.modified_at
                )

    def remove(self, sha256: str) -> None:
        self._bucket.remove(blob_name(sha256))

    def clear_staged(self) -> None:
        if (self._root / STAGED).is_dir():
            _sweep(self._root / STAGED)

    def _bring(self, name: str, sha256: str, path: Path, pulse: Pulse) -> None:
        digest = hashlib.sha256()
        with closing(
            Bringing(lambda: self._bucket.open(name), look=lambda: pulse(False))
        ) as pieces:
            free_bytes = shutil.disk_usage(path.parent).free
            if pieces.end > free_bytes:
                raise StorageFull(
                    f"the recording has {pieces.end} bytes; the worker's disk has {free_bytes} left"
                )
            try:
                with path.open("wb") as file:
                    for piece in pieces:
                        digest.update(piece)
                        file.write(piece)
                        pulse(True)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise StorageFull("the worker's disk is full") from error
                raise
        if digest.hexdigest() != sha256:
            raise BlobDamaged


@contextmanager
def _claimed(folder: Path) -> Iterator[Path]:
    """A new file that is locked while in the block, and gone after it."""
    while True:
        path = folder / uuid.uuid4().hex
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # else it was swept before it was locked
            break
        os.close(descriptor)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove the files whose process is gone: its lock went with it. Others' are left alone."""
    for path in folder.iterdir():
        if _STAGED_NAME.fullmatch(path.name) is None or not is_ours(path):
            continue
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
