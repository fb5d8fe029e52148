"""Uploaded bytes as files named by their digest; a file under its name is always whole."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pipeline.ledger.errors import BlobMissing, UploadUnknown
from pipeline.ledger.ids import is_id

INCOMING = "incoming"

_DIGEST = re.compile("[0-9a-f]{64}")


class BlobStore:
    """A folder of files `ab/abcdef…`, and of uploads under way, `incoming/<upload id>`.

    Several processes may write to it at once. The caller hashes what it writes; the order is
    `recordings.begin_upload`, `begin`, the bytes, `recordings.name_upload`, `commit`,
    `recordings.finish_upload`. Lets OSError through.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, upload_id: str) -> Path:
        """Where the bytes of this upload go; its folder is there, the file is the caller's."""
        path = self._incoming(upload_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self, upload_id: str, sha256: str) -> Path:
        """Return once the bytes would survive a loss of power under their own name.

        Idempotent. Bytes that are there already are replaced by the same ones.
        """
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
        return path

    def discard(self, upload_id: str) -> None:
        """Forget an upload under way. Idempotent; what was committed stays."""
        self._incoming(upload_id).unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Raises BlobMissing for what cannot be a blob's name; the file may be missing still."""
        if _DIGEST.fullmatch(sha256) is None:
            raise BlobMissing("not a blob's name; 64 lower-case hexadecimal digits would be")
        return self._root / sha256[:2] / sha256

    def _incoming(self, upload_id: str) -> Path:
        if not is_id(upload_id):
            raise UploadUnknown
        return self._root / INCOMING / upload_id

    def _make_folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
