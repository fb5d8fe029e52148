"""The end of the night's window, for what still runs then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ending_at_close(end: Callable[[], None], closes_in_s: float | None) -> Iterator[None]:
    """Within the block `end` is called once so many seconds are over; none is never.

    From a thread of its own, and never once the block is left. Seconds from the claim, so that only
    the database's clock named the moment.
    """
    if closes_in_s is None:
        yield
        return
    timer = threading.Timer(closes_in_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
