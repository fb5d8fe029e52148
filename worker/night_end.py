"""The end of the night's window, for what still runs then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.records import EndReason
from pipeline.run import Watch


@contextmanager
def leaving_at_close(watch: Watch, closes_in_s: float | None) -> Iterator[None]:
    """Within the block the epoch is told to end once so many seconds are over; none is never.

    The worker stays. Seconds from the claim, so that only the database's clock named the moment.
    """
    if closes_in_s is None:
        yield
        return
    timer = threading.Timer(closes_in_s, watch.leave, (EndReason.NIGHT_ENDED,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
