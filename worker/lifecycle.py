"""The process that owns the engine: loads it once, stamps its row, and leaves on SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from pipeline.engine.registry import ENGINES
from pipeline.engine.session import Engine
from pipeline.errors import OmnaiError
from pipeline.ledger import workers
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.workers import WorkerState
from pipeline.settings import Settings
from worker import reaper, slot
from worker.startup import check_installation
from worker.station import Station

STAMP_S = 5.0

PREDECESSOR_S = 30.0
"""A process that was killed holds its slot until the system has taken back what it owned."""

LEAVING = (signal.SIGTERM, signal.SIGQUIT)

log = logging.getLogger(__name__)


class EngineNotLoaded(OmnaiError):
    """The engine cannot be loaded; another start would not help."""

    code = "engine_not_loaded"


class Lifecycle:
    """What one pool process holds from its start to its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held = ExitStack()
        self._left = threading.Event()
        self._worker_id: str | None = None
        self.station: Station | None = None

    def begin(self) -> None:
        """Take the slot, end what a predecessor left in it, and load the engine.

        Raises OmnaiError, EngineNotLoaded where it is the engine's; nothing was claimed.
        """
        settings = self._settings
        check_installation(settings)
        self._held.enter_context(slot.locked(settings, slot.ENGINE, wait_s=PREDECESSOR_S))
        assert settings.database_url is not None
        database = connect(settings.database_url)
        self._held.callback(database.dispose)
        reaper.clear_slot(database, settings)
        self._worker_id = workers.register(
            database,
            host=settings.host_name,
            slot=slot.slot_name(settings),
            engine=settings.engine,
            pid=os.getpid(),
        )
        threading.Thread(
            target=self._stamp, args=(database,), name="worker-stamp", daemon=True
        ).start()
        engine = _loaded(settings.engine)
        workers.set_state(database, self._worker_id, WorkerState.READY)
        slot.tell_loaded(settings)
        self.station = Station(settings, engine=engine, database=database)
        log.info("The engine is ready.", extra={"action": "ready", "engine": settings.engine})

    @contextmanager
    def leaving_on_sigterm(self, station: Station) -> Iterator[None]:
        """Between two jobs SIGTERM ends the process at once; inside, after the unit in flight."""

        def leave(number: int, frame: FrameType | None) -> None:
            self.leave(station)

        before = {number: signal.signal(number, leave) for number in LEAVING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def leave(self, station: Station) -> None:
        """For a signal handler: what is committed needs nobody, and a brief is made elsewhere."""
        station.leave()
        if station.may_go:
            os._exit(0)

    def end(self) -> None:
        self._left.set()
        self._held.close()

    def _stamp(self, database: Database) -> None:
        assert self._worker_id is not None
        while not self._left.wait(STAMP_S):
            try:
                workers.stamp(database, self._worker_id)
            except DatabaseUnavailable:
                log.warning("A worker's sign of life was not stored.", extra={"action": "stamp"})


def _loaded(name: str) -> Engine:
    try:
        return ENGINES[name]()
    except OmnaiError as error:
        raise EngineNotLoaded(error.message) from error
