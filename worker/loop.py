"""A thread of the supervisor that looks at the database again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pipeline.ledger.errors import DatabaseUnavailable

GRACE_S = 15.0
"""After an outage nobody is judged by stamps that could not be stored; each is renewed by then."""

log = logging.getLogger(__name__)


class Loop(threading.Thread):
    """Calls `body` at once and then every `period_s` until it is told to leave.

    While the database is away it calls `probe` instead, which must only read. Any other fault ends
    the thread: the supervisor sees it and goes, because a half-watched worker is worse than none.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], object],
        *,
        probe: Callable[[], object],
        period_s: float,
        grace_s: float = GRACE_S,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._body = body
        self._probe = probe
        self._period_s = period_s
        self._grace_s = grace_s
        self._leave = threading.Event()
        self._woken = threading.Event()

    def wake(self) -> None:
        """Have `body` called now; from any thread."""
        self._woken.set()

    def leave(self) -> None:
        self._leave.set()
        self._woken.set()

    def run(self) -> None:
        while True:
            try:
                self._body()
            except DatabaseUnavailable:
                log.warning(
                    "The database is away.", extra={"action": "database_away", "loop": self.name}
                )
                self._await_return()
            self._woken.wait(self._period_s)
            self._woken.clear()
            if self._leave.is_set():
                return

    def _await_return(self) -> None:
        while not self._leave.wait(self._period_s):
            try:
                self._probe()
            except DatabaseUnavailable:
                continue
            self._leave.wait(self._grace_s)
            return
