"""One listener per process, which wakes the requests that wait for a job to change."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import OmnaiError
from pipeline.ledger import changes

RECHECK_S = 10.0
"""A notification is lost while the listener reconnects; nobody sleeps longer than this on that."""

log = logging.getLogger(__name__)


class Seat:
    """A place in the waiting room: woken when its job changes."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def wake(self) -> None:
        self._woken.set()

    def wait(self, deadline: float) -> None:
        """Return once woken, at the deadline (monotonic), or when it is time to look again."""
        self._woken.wait(max(0.0, min(deadline - time.monotonic(), RECHECK_S)))
        self._woken.clear()


class Watcher:
    """Seats for at most `waiters_max` requests; the thread starts with the first of them."""

    def __init__(self, url: str, *, waiters_max: int) -> None:
        self._url = url
        self._waiters_max = waiters_max
        self._lock = threading.Lock()
        self._seats: defaultdict[str, set[Seat]] = defaultdict(set)
        self._taken = 0
        self._pid: int | None = None
        self._leave = threading.Event()

    @contextmanager
    def seat(self, job_id: str) -> Iterator[Seat | None]:
        """None where all seats are taken: such a request is answered at once."""
        seat = self._take(job_id)
        try:
            yield seat
        finally:
            if seat is not None:
                self._give_back(job_id, seat)

    def close(self) -> None:
        """Wake everybody and end the thread with its next look."""
        self._leave.set()
        self._wake(None)

    @property
    def is_closed(self) -> bool:
        return self._leave.is_set()

    def _take(self, job_id: str) -> Seat | None:
        with self._lock:
            if self._taken >= self._waiters_max or self.is_closed:
                return None
            # A fork, as by a preloading server, takes no thread along.
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._listen, name="job-watcher", daemon=True).start()
            seat = Seat()
            self._seats[job_id].add(seat)
            self._taken += 1
            return seat

    def _give_back(self, job_id: str, seat: Seat) -> None:
        with self._lock:
            self._taken -= 1
            self._seats[job_id].discard(seat)
            if not self._seats[job_id]:
                del self._seats[job_id]

    def _listen(self) -> None:
        try:
            with changes.listen(self._url) as notices:
                for job_id in notices:
                    if self.is_closed:
                        return
                    if job_id is not None:
                        self._wake(None if job_id == changes.EVERY_JOB else job_id)
        except OmnaiError:
            # Those who wait look again by themselves; the next one starts another listener.
            log.warning("The listener for changes ended.", extra={"action": "listen"})
            self._pid = None

    def _wake(self, job_id: str | None) -> None:
        with self._lock:
            chosen = (
                self._seats.get(job_id, set()) if job_id else set().union(*self._seats.values())
            )
            for seat in chosen:
                seat.wake()
