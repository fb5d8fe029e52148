"""Whether the places that recordings and frames are written to take a write."""

from __future__ import annotations

import errno
import hashlib
import tempfile
import time

from pipeline.errors import OmnaiError
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.errors import StorageFull
from pipeline.settings import Settings

BUCKET_PERIOD_S = 300.0
"""A bucket that took a write is not asked again for so long: each costs its owner something."""

KEY = "ready"
"""The object that is written; no blob and no frame has such a name."""
CONTENT = b"ready\n"

FULL = (errno.ENOSPC, errno.EDQUOT)


class StorageUnwritable(OmnaiError):
    """The data folder cannot be written to; look at its disk, its mount and its owner."""

    code = "storage_unwritable"


class Writable:
    """The data folder of one process, and the bucket where there is one."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.data_dir
        self._bucket = None
        if settings.blobs is not None:
            name, _, prefix = settings.blobs.removeprefix("s3://").partition("/")
            self._bucket = Bucket(name=name, prefix=prefix, endpoint=settings.s3_endpoint)
        self._bucket_took_at: float | None = None

    def check(self) -> None:
        """Write and forget. Raises StorageUnwritable, StorageFull, or BlobsUnavailable; may take
        as long as a disk or a service takes to answer."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(CONTENT)
        except OSError as error:
            if error.errno in FULL:
                raise StorageFull("the disk of the data folder is full") from error
            raise StorageUnwritable from error
        if self._bucket is None or self._is_fresh():
            return
        self._bucket.put(KEY, CONTENT, sha256=hashlib.sha256(CONTENT).hexdigest())
        self._bucket_took_at = time.monotonic()

    def _is_fresh(self) -> bool:
        at = self._bucket_took_at
        return at is not None and time.monotonic() - at < BUCKET_PERIOD_S
