"""Kept frames as files named by their digest; a file under its name is always whole."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from pipeline.files import write_whole
from pipeline.ledger.errors import FrameDamaged, FrameMissing
from pipeline.records import FRAME_BYTES_MAX, Frame

_DIGEST = re.compile("[0-9a-f]{64}")


class FrameStore:
    """A folder of JPEGs, `ab/abcdef….jpg`; several processes may write to it at once.

    A frame is kept here before its row is written, so that no row lacks its file; a file without a
    row is only a leftover. Lets OSError through.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def keep(self, frame: Frame) -> None:
        """Return once the frame would survive a loss of power. Idempotent.

        Raises FrameDamaged where the frame's digest is not that of its bytes, or it is too large.
        """
        _check(frame.sha256, frame.jpeg)
        if not 0 < len(frame.jpeg) <= FRAME_BYTES_MAX:
            raise FrameDamaged(
                f"a frame has {len(frame.jpeg)} bytes; 1 to {FRAME_BYTES_MAX} would be accepted"
            )
        path = self.path(frame.sha256)
        if not _holds(path, frame.jpeg):
            self._make_folder(path.parent)
            write_whole(path, frame.jpeg)
        # Also where the file was there: whoever renamed it may have died before this.
        _sync_folder(path.parent)

    def read(self, sha256: str) -> bytes:
        """Raises FrameMissing, or FrameDamaged where the file's bytes have changed."""
        try:
            jpeg = self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise FrameMissing from None
        _check(sha256, jpeg)
        return jpeg

    def path(self, sha256: str) -> Path:
        """Raises FrameMissing for what cannot be a frame's name."""
        if _DIGEST.fullmatch(sha256) is None:
            raise FrameMissing("not a frame's name; 64 lower-case hexadecimal digits would be")
        return self._root / sha256[:2] / f"{sha256}.jpg"

    def _make_folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync_folder(path.parent)


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
