"""Uploaded bytes under their digest; what stands under its name is always whole."""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.ledger.errors import BlobDamaged, BlobMissing, UploadUnknown
from pipeline.ledger.folders import Stored, is_ours, untouched
from pipeline.ledger.ids import is_id

INCOMING = "incoming"

PIECE_BYTES = 1 << 20
"""Read and handed on at a time."""

_DIGEST = re.compile("[0-9a-f]{64}")


Pulse = Callable[[bool], None]
"""Told whether any bytes have come since it was called last."""


def _nothing(has_come: bool) -> None:
    """Nobody wants to know."""


class BlobStore(ABC):
    """Where recordings lie. Several processes may write at once, on several hosts.

    An upload under way is a local file, `incoming/<upload id>`, whatever the backend. The caller
    hashes what it writes; the order is `recordings.begin_upload`, `begin`, the bytes,
    `recordings.name_upload`, `commit`, `recordings.finish_upload`.

    Raises BlobMissing for what is not there or cannot be a blob's name, UploadUnknown for what
    cannot be an upload's, BlobDamaged for bytes that are not those the name promises, and
    BlobsUnavailable where the storage does not answer. Lets OSError of the local disk through.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, upload_id: str) -> Path:
        """Where the bytes of this upload go; its folder is there, the file is the caller's."""
        path = self._incoming(upload_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def discard(self, upload_id: str) -> None:
        """Forget an upload under way. Idempotent; what was committed stays."""
        self._incoming(upload_id).unlink(missing_ok=True)

    def under_way(self, *, after: float = -math.inf, since: float = math.inf) -> tuple[str, ...]:
        """The uploads that have a temporary file on this machine, last changed from `after` to
        before `since`."""
        folder = self._root / INCOMING
        found = [path for path in folder.iterdir() if is_ours(path)] if folder.exists() else []
        return tuple(path.name for path in found if after <= _changed_at(path) < since)

    @abstractmethod
    def clear_staged(self) -> None:
        """Remove the local copies that a killed process has left, where there are such."""

    @abstractmethod
    def commit(self, upload_id: str, sha256: str) -> None:
        """Return once the bytes would survive a loss of power under their own name.

        Idempotent. Bytes that are there already are the same ones, or are replaced by them. Raises
        FileNotFoundError where there is neither the upload nor the blob.
        """

    @abstractmethod
    def local(self, sha256: str, *, pulse: Pulse = _nothing) -> AbstractContextManager[Path]:
        """A whole local file while in the block; not the caller's to write to or to remove.

        `pulse` is called many times a minute while the bytes are brought, also while none come;
        what it raises ends that at once.
        """

    @abstractmethod
    def size(self, sha256: str) -> int:
        """Bytes."""

    @abstractmethod
    def read(self, sha256: str, *, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to before `end`, piece by piece.

        What is wrong at first is raised here and not by the first piece. Has `close`.
        """

    @abstractmethod
    def untouched(self, *, since: float) -> Iterator[Stored]:
        """The blobs that were written before `since` (seconds of the epoch), whoever names them.

        Whatever else lies there is somebody else's and not told.
        """

    @abstractmethod
    def remove(self, sha256: str) -> None:
        """Idempotent; the caller holds the lock of its row, and has seen that nobody names it."""

    def _incoming(self, upload_id: str) -> Path:
        if not is_id(upload_id):
            raise UploadUnknown
        return self._root / INCOMING / upload_id


class FolderBlobs(BlobStore):
    """A folder of files, `ab/abcdef…`."""

    def commit(self, upload_id: str, sha256: str) -> None:
        part, path = self._incoming(upload_id), self.path(sha256)
        self._make_folder(path.parent)
        try:
            _sync(part, os.O_RDWR)
        except FileNotFoundError:
            # This call repeats one that got as far as the rename.
            if not path.exists():
                raise
        else:
            part.replace(path)
        _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)

    @contextmanager
    def local(self, sha256: str, *, pulse: Pulse = _nothing) -> Iterator[Path]:
        path = self.path(sha256)
        if not path.is_file():
            raise BlobMissing
        yield path

    def size(self, sha256: str) -> int:
        try:
            return self.path(sha256).stat().st_size
        except FileNotFoundError:
            raise BlobMissing from None

    def read(self, sha256: str, *, start: int, end: int) -> Iterator[bytes]:
        try:
            file = self.path(sha256).open("rb")
        except FileNotFoundError:
            raise BlobMissing from None
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes < end:
            file.close()
            raise BlobDamaged(f"{size_bytes} bytes are left of at least {end}")
        file.seek(start)
        return _Pieces(file, end - start)

    def untouched(self, *, since: float) -> Iterator[Stored]:
        return untouched(self._root, "", since=since)

    def remove(self, sha256: str) -> None:
        path = self.path(sha256)
        if is_ours(path):
            path.unlink(missing_ok=True)

    def clear_staged(self) -> None:
        """There are none: what lies here is read where it lies."""

    def path(self, sha256: str) -> Path:
        """Where it is, or would be."""
        return self._root / blob_name(sha256)

    def _make_folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def blob_name(sha256: str) -> str:
    """`ab/abcdef…`. Raises BlobMissing for what is no digest."""
    if _DIGEST.fullmatch(sha256) is None:
        raise BlobMissing("not a blob's name; 64 lower-case hexadecimal digits would be")
    return f"{sha256[:2]}/{sha256}"


class _Pieces(Iterator[bytes]):
    """Of an open file, which it closes; a generator that never began would leave it open."""

    def __init__(self, file: BinaryIO, left_bytes: int) -> None:
        self._file = file
        self._left_bytes = left_bytes

    def __next__(self) -> bytes:
        piece = b"" if self._file.closed else self._file.read(min(PIECE_BYTES, self._left_bytes))
        if not piece:
            self.close()
            raise StopIteration
        self._left_bytes -= len(piece)
        return piece

    def close(self) -> None:
        self._file.close()


def _changed_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:  # it was stored or given up just now
        return math.inf


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
