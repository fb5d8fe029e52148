"""SHA-256 of uploads that come in parts, as far as this process has seen every byte of them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

KEPT_MAX = 1_000
"""A few hundred bytes each; one that is dropped costs a second reading of its file."""


class Digests:
    """Running digests by upload. Whoever goes on with one takes it out and puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, _Hash]] = OrderedDict()

    def take(self, upload_id: str, *, offset_bytes: int) -> _Hash | None:
        """That of the first so many bytes; none where this process does not know it."""
        with self._lock:
            known = self._kept.pop(upload_id, None)
        if known is not None and known[0] == offset_bytes:
            return known[1]
        return None if offset_bytes else hashlib.sha256()

    def put(self, upload_id: str, digest: _Hash, *, offset_bytes: int) -> None:
        with self._lock:
            self._kept[upload_id] = (offset_bytes, digest)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
