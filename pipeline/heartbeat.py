"""Says every few seconds that the process of a running epoch lives."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from pipeline.ledger import epochs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import DatabaseUnavailable

INTERVAL_S = 5.0
"""Several stamps fit into the reaper's patience, so that one lost to the network costs nothing."""

log = logging.getLogger(__name__)


class Heartbeat:
    """A thread that stamps `alive_at`; it says nothing about progress, which the loop stamps."""

    def __init__(
        self,
        database: Database,
        key: EpochKey,
        *,
        on_fence_lost: Callable[[], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._database = database
        self._key = key
        self._on_fence_lost = on_fence_lost
        self._interval_s = interval_s
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._leave.wait(self._interval_s):
            try:
                may_write = epochs.stamp_alive(self._database, self._key)
            except DatabaseUnavailable:
                log.warning("A sign of life was not stored.", extra=self._key.log_context())
                continue
            if not may_write:
                self._on_fence_lost()
                return
