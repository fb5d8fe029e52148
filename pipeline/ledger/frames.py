"""Kept frames under their digest; what stands under its name is always whole."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from pipeline.files import write_whole
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.errors import BlobMissing, FrameDamaged, FrameMissing
from pipeline.ledger.folders import Stored, digest_in, is_ours, parts, untouched
from pipeline.records import FRAME_BYTES_MAX, Frame

ENDING = ".jpg"

FOLDER = "frames/"
"""Of a bucket."""
ASIDE = "swept/"
"""Where a bucket's frames lie from one sweep to another."""

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
    def untouched(self, *, since: float) -> Iterator[Stored]:
        """The frames that were last kept before `since` (seconds of the epoch), whoever names them.

        Whatever else lies there is somebody else's and not told.
        """

    @abstractmethod
    def remove(self, sha256: str, *, since: float) -> bool:
        """Unless it was kept again after `since`; return whether its bytes are gone. Idempotent.

        Where a frame cannot be looked at and taken away in one step, it goes in two sweeps.
        """

    def clear_parts(self, *, since: float, is_dry_run: bool = False) -> int:
        """Remove what killed processes were writing before `since`; return how much that was."""
        return 0

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
        if not (_holds(path, jpeg) and _touched(path)):
            self._make_folder(path.parent)
            write_whole(path, jpeg)
        # Also where the file was there: whoever renamed it may have died before this.
        _sync_folder(path.parent)

    def _get(self, sha256: str) -> bytes:
        try:
            return self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise FrameMissing from None

    def untouched(self, *, since: float) -> Iterator[Stored]:
        return untouched(self._root, ENDING, since=since)

    def remove(self, sha256: str, *, since: float) -> bool:
        """Moved aside first: whoever keeps it meanwhile has touched it, or does not find it."""
        path = self.path(sha256)
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        if not is_ours(path):
            return False
        try:
            path.rename(aside)
        except FileNotFoundError:
            return False
        is_old = aside.stat().st_mtime < since
        if not is_old:
            with suppress(FileExistsError):  # the same bytes, written anew
                os.link(aside, path)
        aside.unlink()
        return is_old

    def clear_parts(self, *, since: float, is_dry_run: bool = False) -> int:
        count = 0
        for part in parts(self._root, since=since):
            count += 1
            if not is_dry_run:
                part.unlink(missing_ok=True)
        return count

    def path(self, sha256: str) -> Path:
        """Where it is, or would be."""
        return self._root / frame_name(sha256)

    def _make_folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync_folder(path.parent)


class BucketFrames(FrameStore):
    """Objects `frames/ab/abcdef….jpg` of a bucket, so that every host sees every frame.

    A service removes an object whoever has just written it anew. So a sweep lays a copy aside
    first, which is read where the frame is gone, and only another sweep removes that: by then
    whoever kept the frame meanwhile has written its row.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def untouched(self, *, since: float) -> Iterator[Stored]:
        for place in (FOLDER, ASIDE):
            for found in self._bucket.listed(place):
                folder, _, name = found.key.removeprefix(place).partition("/")
                digest = digest_in(name, ENDING)
                if digest is not None and digest[:2] == folder and found.modified_at < since:
                    yield Stored(
                        sha256=digest, size_bytes=found.size_bytes, changed_at=found.modified_at
                    )

    def remove(self, sha256: str, *, since: float) -> bool:
        """The order of the questions counts: what is not in its place now, and was laid aside
        before `since`, was not kept in between.
        """
        name = frame_name(sha256)
        kept, aside = f"{FOLDER}{name}", f"{ASIDE}{name}"
        try:
            if self._bucket.modified_at(kept) < since:
                self._bucket.copy(kept, aside)
                self._bucket.remove(kept)
            return False
        except BlobMissing:
            pass
        try:
            if self._bucket.modified_at(aside) >= since:
                return False
        except BlobMissing:
            return False
        self._bucket.remove(aside)
        return True

    def _put(self, sha256: str, jpeg: bytes) -> None:
        self._bucket.put(f"{FOLDER}{frame_name(sha256)}", jpeg, sha256=sha256)

    def _get(self, sha256: str) -> bytes:
        name = frame_name(sha256)
        for place in (FOLDER, ASIDE):
            with suppress(BlobMissing), closing(self._bucket.open(f"{place}{name}")) as pieces:
                return b"".join(pieces)
        raise FrameMissing


def frame_name(sha256: str) -> str:
    """`ab/abcdef….jpg`. Raises FrameMissing for what is no digest."""
    if _DIGEST.fullmatch(sha256) is None:
        raise FrameMissing("not a frame's name; 64 lower-case hexadecimal digits would be")
    return f"{sha256[:2]}/{sha256}{ENDING}"


def _check(sha256: str, jpeg: bytes) -> None:
    if hashlib.sha256(jpeg).hexdigest() != sha256:
        raise FrameDamaged


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def _touched(path: Path) -> bool:
    """Say that it is wanted again; false where it went away just now."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
