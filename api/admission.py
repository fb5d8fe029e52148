"""Places for uploads and probes: so many at once, a queue before them, and an end to waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from api.errors import Refusal

WAIT_S = 60.0
"""Proxies give up on a silent request after a minute or little more."""


class IntakeBusy(Refusal):
    """All places are taken."""

    retry_after_s = 30
    """Half of what a request waits here: places come free by the minute, not by the second."""

    def __init__(self) -> None:
        super().__init__(
            "intake_busy", "too many recordings are being taken in; send this one again later"
        )


class Admission:
    """The places of one process, given in the order of asking.

    What is counted is a request that brings a recording's bytes, from before its first byte is
    read until what it brought is stored or refused.
    """

    def __init__(self, *, places: int, waiting_max: int, wait_s: float = WAIT_S) -> None:
        self._places = self._free = places
        self._waiting_max = waiting_max
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()

    def load(self) -> tuple[int, int]:
        """How many hold a place now, and how many wait for one."""
        with self._lock:
            return self._places - self._free, len(self._queue)

    @contextmanager
    def place(self, *, may_wait: bool = True) -> Iterator[None]:
        """Hold a place while in the block. Raises IntakeBusy, at once where too many wait."""
        turn = self._ask(may_wait)
        if turn is not None and not turn.wait(self._wait_s) and self._give_up(turn):
            raise IntakeBusy
        try:
            yield
        finally:
            self._give_back()

    def _ask(self, may_wait: bool) -> threading.Event | None:
        """None where there is a place already."""
        with self._lock:
            if self._free:
                self._free -= 1
                return None
            if not may_wait or len(self._queue) >= self._waiting_max:
                raise IntakeBusy
            turn = threading.Event()
            self._queue.append(turn)
            return turn

    def _give_up(self, turn: threading.Event) -> bool:
        """False where the place came at the last moment."""
        with self._lock:
            if turn.is_set():
                return False
            self._queue.remove(turn)
            return True

    def _give_back(self) -> None:
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._free += 1
