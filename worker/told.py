"""Whether a signal has told this process to leave."""

from __future__ import annotations

import time

POLL_S = 0.05


class Told:
    """Set by a signal handler, waited for by the thread that handlers interrupt.

    No Event: that thread may hold an Event's lock at the moment at which the handler wants it, and
    would then wait for itself for ever.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Whether it is set by then."""
        deadline = time.monotonic() + timeout_s
        while not self._is_set and (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, POLL_S))
        return self._is_set
