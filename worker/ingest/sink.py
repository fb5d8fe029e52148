"""The file that a recording is fetched into: what it holds, and how much of that is safe."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.ledger.fetches import Version
from worker.ingest.connect import FetchStopped

READ_BYTES = 1 << 20

SAFE_EVERY_S = 2.0
"""How often what has come is synced and told; a killed process loses at most so much."""

Tell = Callable[[int, int | None, Version | None], bool]
"""Stores how many bytes are safe, of how many, of which version; false where nobody wants them."""


class Sink:
    """Writes one file from its start, or on from what earlier attempts have made safe."""

    def __init__(self, file: BinaryIO, tell: Tell) -> None:
        self._file = file
        self._tell = tell
        self._digest = hashlib.sha256()
        self._total_bytes: int | None = None
        self._version: Version | None = None
        self._safe_at = 0.0
        self._has_begun = False
        self.size_bytes = 0
        self.safe_bytes = 0
        """Of a version that another attempt can go on from."""

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def begin(self, total_bytes: int | None, version: Version | None) -> None:
        """Forget what was there, and say so before the first byte: bytes of two versions must
        never be taken for one."""
        self._total_bytes, self._version = total_bytes, version
        self.size_bytes = 0
        self._digest = hashlib.sha256()
        self._told(0)
        self._has_begun = True
        self._file.seek(0)
        self._file.truncate()

    def go_on(self, version: Version, *, from_bytes: int, check: Callable[[], None]) -> None:
        """Keep what was safe, and only that: what came after it may be holes since a power cut.

        Raises ValueError where not so much is there, and what `check` raises in between.
        """
        if os.fstat(self._file.fileno()).st_size < from_bytes:
            raise ValueError("the file is shorter than what was safe of it")
        self._total_bytes, self._version = version.total_bytes, version
        self._file.truncate(from_bytes)
        self._file.seek(0)
        self._digest = hashlib.sha256()
        while block := self._file.read(READ_BYTES):
            check()
            self._digest.update(block)
        self.size_bytes = self.safe_bytes = from_bytes
        self._has_begun = True

    def write(self, chunk: bytes) -> None:
        """Raises FetchStopped where nobody wants it any more; lets OSError through."""
        self._file.write(chunk)
        self._digest.update(chunk)
        self.size_bytes += len(chunk)
        if time.monotonic() >= self._safe_at:
            self.make_safe()

    def make_safe(self) -> None:
        """Sync and tell what was written, if anything was begun.

        Raises FetchStopped where nobody wants it any more; lets OSError through.
        """
        if not self._has_begun:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._told(self.size_bytes)

    def _told(self, safe_bytes: int) -> None:
        if not self._tell(safe_bytes, self._total_bytes, self._version):
            raise FetchStopped
        self.safe_bytes = safe_bytes if self._version is not None else 0
        self._safe_at = time.monotonic() + SAFE_EVERY_S


@contextmanager
def held(path: Path) -> Iterator[BinaryIO | None]:
    """The file for this process alone until the block ends; none where another still writes it.

    One that was stopped and comes to life again keeps its lock all the time, so that it can never
    write between our bytes.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file
