"""Calls on connections of their own, all held at one lock until the last of them waits there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import text

from pipeline.errors import OmnaiError
from pipeline.ledger.database import Database
from tests.pipeline.ledger.factories import rows

WAITING = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Racer(threading.Thread):
    """Runs one call and keeps what came of it, an error of ours too."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call
        self.outcome: Any = None

    def run(self) -> None:
        try:
            self.outcome = self._call()
        except OmnaiError as error:
            self.outcome = error


def held_at(database: Database, lock: str, *calls: Callable[[], Any]) -> list[Any]:
    """Take `lock`, queue the calls at it in their order, and let go once all of them wait."""
    racers = [Racer(call) for call in calls]
    with database.transaction() as session:
        session.execute(text(lock))
        for place, racer in enumerate(racers, start=1):
            racer.start()
            deadline = time.monotonic() + 15
            while rows(database, WAITING) != [(place,)]:
                assert time.monotonic() < deadline, "not all of them wait for the lock"
                time.sleep(0.01)
    return ended(racers)


def ended(racers: Sequence[Racer]) -> list[Any]:
    """What came of each; nobody may still wait."""
    for racer in racers:
        racer.join(20)
        assert not racer.is_alive()
    return [racer.outcome for racer in racers]
