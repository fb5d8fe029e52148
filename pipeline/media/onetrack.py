"""An MP4 file that shows one of its tracks, so that only that one's index is held in memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pipeline.media.container import read_boxes

KIND_BYTES = 4

PASSED_OVER = b"free"
"""A box of this kind is skipped by every reader (ISO/IEC 14496-12, 8.1.2)."""

TRACKS_MAX = 64
"""Tracks of an index that are looked for: of streams, no more are accepted by default."""


def find_tracks(path: str) -> tuple[int, ...]:
    """Where in the file each track's box names its kind, in order; none where that is not clear.

    A track of a fragmented file is indexed while it is read, and stays as it is.
    """
    boxes = read_boxes(path)
    if boxes is None or boxes.moov is None or boxes.is_cut or b"moof" in boxes.kinds:
        return ()
    start, length = boxes.moov
    found = []
    with Path(path).open("rb") as file:
        at, end = start + 8, start + length
        while at + 8 <= end:
            file.seek(at)
            head = file.read(8)
            size, kind = int.from_bytes(head[:4], "big"), head[4:8]
            if size < 8 or at + size > end or kind in (b"mvex", b"cmov"):
                return ()
            if kind == b"trak":
                found.append(at + 4)
            at += size
    return tuple(found) if len(found) <= TRACKS_MAX else ()


class OneTrack:
    """Reads the file as if it had no other track; what a container is opened from.

    It is closed with the last use of it: a container does not close what it reads.
    """

    def __init__(self, path: str, tracks: tuple[int, ...], index: int) -> None:
        self._hidden = tracks[:index] + tracks[index + 1 :]
        self._until = max(tracks) + KIND_BYTES
        self._at = 0
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        with suppress(AttributeError):  # of one that could not be opened
            os.close(self._descriptor)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        data = os.pread(self._descriptor, size, self._at)
        at, self._at = self._at, self._at + len(data)
        return data if at >= self._until else self._shown(data, at)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def _shown(self, data: bytes, at: int) -> bytes:
        """`data`, which lies at `at` in the file, with the kinds of the other tracks replaced."""
        shown = bytearray(data)
        for kind_at in self._hidden:
            for place, letter in enumerate(PASSED_OVER, start=kind_at - at):
                if 0 <= place < len(shown):
                    shown[place] = letter
        return bytes(shown)
