"""Kept frames under their digest; what stands under its name is always whole."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path

from pipeline.files import write_whole
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.errors import BlobMissing, FrameDamaged, FrameMissing
from pipeline.records import FRAME_BYTES_MAX, Frame

_DIGEST = re.compile("[0-9a-f]{64}")


class FrameStore(ABC):
    """Where JPEGs lie, `ab/abcdef….jpg`; several processes may write at once, on several hosts.

    A frame is kept here before its row is written, so that no row lacks its file; a file without a
    row is only a leftover. Raises FrameMissing for what is not there or cannot be a frame's name,
    and BlobsUnavailable where the storage does not answer. Lets OSError through.
    """

    def keep(self, frame: Frame) -> None:
        """Return once the frame would survive a loss of power. Idempotent.

        Raises FrameDamaged where the frame's digest is not that of its bytes, or it is too large.
        """
        _check(frame.sha256, frame.jpeg)
        if not 0 < len(frame.jpeg) <= FRAME_BYTES_MAX:
            raise FrameDamaged(
                f"a frame has {len(frame.jpeg)} bytes; 1 to {FRAME_BYTES_MAX} would be accepted"
            )
        self._put(frame.sha256, frame.jpeg)

    def read(self, sha256: str) -> bytes:
        """Raises FrameDamaged where the bytes have changed."""
        jpeg = self._get(sha256)
        _check(sha256, jpeg)
        return jpeg

    @abstractmethod
    def _put(self, sha256: str, jpeg: bytes) -> None: ...

    @abstractmethod
    def _get(self, sha256: str) -> bytes: ...


class FolderFrames(FrameStore):
    """A folder of files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _put(self, sha256: str, jpeg: bytes) -> None:
        path = self.path(sha256)
        if not _holds(path, jpeg):
            self._make_folder(path.parent)
            write_whole(path, jpeg)
        # Also where the file was there: whoever renamed it may have died before this.
        _sync_folder(path.parent)

    def _get(self, sha256: str) -> bytes:
        try:
            return self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise FrameMissing from None

    def path(self, sha256: str) -> Path:
        """Where it is, or would be."""
        return self._root / frame_name(sha256)

    def _make_folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync_folder(path.parent)


class BucketFrames(FrameStore):
    """Objects `frames/ab/abcdef….jpg` of a bucket, so that every host sees every frame."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def _put(self, sha256: str, jpeg: bytes) -> None:
        self._bucket.put(f"frames/{frame_name(sha256)}", jpeg, sha256=sha256)

    def _get(self, sha256: str) -> bytes:
        try:
            with closing(self._bucket.open(f"frames/{frame_name(sha256)}")) as pieces:
                return b"".join(pieces)
        except BlobMissing:
            raise FrameMissing from None


def frame_name(sha256: str) -> str:
    """`ab/abcdef….jpg`. Raises FrameMissing for what is no digest."""
    if _DIGEST.fullmatch(sha256) is None:
        raise FrameMissing("not a frame's name; 64 lower-case hexadecimal digits would be")
    return f"{sha256[:2]}/{sha256}.jpg"


def _check(sha256: str, jpeg: bytes) -> None:
    if hashlib.sha256(jpeg).hexdigest() != sha256:
        raise FrameDamaged


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
