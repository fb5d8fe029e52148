"""Bytes that come from a storage elsewhere, read beside whoever waits for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TypeVar

from pipeline.ledger.bucket import ObjectBytes

T = TypeVar("T")

AHEAD = 4
"""Pieces that may have come and not been taken yet."""

LOOK_S = 0.2
"""How often whoever waits is asked whether to go on: no person sees the difference to at once."""


class Bringing(Iterator[bytes]):
    """One object's bytes, piece by piece; `end` is how many there are.

    They are read by a thread of their own, because a storage that is silent holds a read for
    minutes in which nobody could be told to leave. `look` is called meanwhile, by whoever waits;
    what it raises ends the waiting. The thread then ends with its read and touches nothing else.
    What opening and reading raise is raised here. Closed by `close`, which waits for nothing.
    """

    def __init__(self, opened: Callable[[], ObjectBytes], *, look: Callable[[], object]) -> None:
        self._look = look
        self._is_over = threading.Event()
        self._sizes: queue.Queue[int | Exception] = queue.Queue(1)
        self._pieces: queue.Queue[bytes | Exception | None] = queue.Queue(AHEAD)
        threading.Thread(target=self._read, args=(opened,), name="bring", daemon=True).start()
        try:
            self.end = self._taken(self._sizes)
        except BaseException:
            self.close()
            raise

    def __next__(self) -> bytes:
        piece = self._taken(self._pieces)
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        self._is_over.set()

    def _taken(self, source: queue.Queue[T | Exception]) -> T:
        while True:
            try:
                found = source.get(timeout=LOOK_S)
            except queue.Empty:
                self._look()
                continue
            if isinstance(found, Exception):
                raise found
            return found

    def _read(self, opened: Callable[[], ObjectBytes]) -> None:
        try:
            with closing(opened()) as pieces:
                self._sizes.put(pieces.end)
                for piece in pieces:
                    if not self._hand_on(piece):
                        return
            self._hand_on(None)
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            # The first to look is the one that waits.
            with suppress(queue.Full):
                self._sizes.put_nowait(error)
            self._hand_on(error)

    def _hand_on(self, piece: bytes | Exception | None) -> bool:
        """Whether somebody still waits."""
        while not self._is_over.is_set():
            with suppress(queue.Full):
                self._pieces.put(piece, timeout=LOOK_S)
                return True
        return False
