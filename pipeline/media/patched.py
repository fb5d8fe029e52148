"""A file read as if some of its bytes were others, and as if it were longer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

PASSED_OVER = b"free"
"""A box of this kind is skipped by every reader (ISO/IEC 14496-12, 8.1.2)."""


class Patched:
    """What a container is opened from in place of the file.

    It is closed with the last use of it: a container does not close what it reads.
    """

    def __init__(
        self, path: str, patches: Sequence[tuple[int, bytes]], *, tail: bytes = b""
    ) -> None:
        """Each patch is an offset and what stands there; the `tail` follows the file's end."""
        self._patches = tuple(patches)
        self._from = min((at for at, _ in patches), default=0)
        self._until = max((at + len(data) for at, data in patches), default=0)
        self._tail = tail
        self._at = 0
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._end = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        with suppress(AttributeError):  # of one that could not be opened
            os.close(self._descriptor)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        at = self._at
        if at >= self._end:
            data = self._tail[at - self._end : at - self._end + size]
        else:
            data = os.pread(self._descriptor, size, at)
            if at < self._until and at + len(data) > self._from:
                data = self._shown(data, at)
        self._at = at + len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        end = self._end + len(self._tail)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: end}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def _shown(self, data: bytes, at: int) -> bytes:
        """`data`, which lies at `at` in the file, as it is patched."""
        shown = bytearray(data)
        for place, patch in self._patches:
            first, last = max(place, at), min(place + len(patch), at + len(data))
            if first < last:
                shown[first - at : last - at] = patch[first - place : last - place]
        return bytes(shown)
