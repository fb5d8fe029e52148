"""Keeps one Celery worker running and looks after what it runs; owns no engine and no task."""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType

from pipeline.ledger import epochs, workers
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.workers import WorkerState
from pipeline.settings import PREFIX, RESERVED_PREFIXES, Settings
from worker import dispatcher, journal, reaper, slot, watchdog
from worker.app import make_app
from worker.loop import Loop
from worker.startup import (
    REFUSED,
    ROOT,
    check_broker,
    check_engine,
    check_installation,
    check_queue,
)

POLL_S = 0.1
BACKOFF_S: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S = 120.0
"""A Celery worker that lived so long had a good start; the next pause is a short one again."""

log = logging.getLogger(__name__)


def run(settings: Settings) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP, or until the engine cannot be loaded; return the
    process's exit status.

    Called from the main thread of a process of its own. Raises OmnaiError before anything is
    started: WorkerRefused, SettingsRefused, SlotTaken, SchemaOutdated.
    """
    journal.begin()
    settings = replace(settings, data_dir=settings.data_dir.absolute())
    check_installation(settings)
    check_engine(settings)
    settings = slot.pinned(settings)
    check_queue(make_app(settings).conf)
    check_broker(settings)
    assert settings.database_url is not None
    with slot.locked(settings, slot.SUPERVISOR):
        database = connect(settings.database_url)
        try:
            _check_tables(database)
            return Supervisor(settings, database).run()
        finally:
            database.dispose()


class Supervisor:
    """The loops, and the Celery worker under them."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._stop = threading.Event()
        self._is_refused = False
        self._loops = self._make_loops()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._told_to_stop)
        for loop in self._loops:
            loop.start()
        try:
            self._keep_running()
        finally:
            for loop in self._loops:
                loop.leave()
        self._end_what_is_left()
        if self._is_refused:
            return REFUSED
        is_watched = all(loop.is_alive() or self._stop.is_set() for loop in self._loops)
        return 0 if is_watched else 1

    def _keep_running(self) -> None:
        failures = 0
        while self._may_go_on():
            began = time.monotonic()
            process = self._start()
            try:
                while self._may_go_on() and process.poll() is None:
                    self._stop.wait(POLL_S)
            finally:
                self._end(process)
            if not self._may_go_on():
                return
            if process.returncode == REFUSED:
                log.error("The worker cannot begin; see above.", extra={"action": "refused"})
                self._is_refused = True
                return
            failures = 0 if time.monotonic() - began > STEADY_S else failures + 1
            pause_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] if failures else BACKOFF_S[0]
            log.warning(
                "The Celery worker ended; another is started.",
                extra={"action": "replace", "status": process.returncode, "pause_s": pause_s},
            )
            self._stop.wait(pause_s)

    def _may_go_on(self) -> bool:
        return not self._stop.is_set() and all(loop.is_alive() for loop in self._loops)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "worker"],
            cwd=ROOT,  # no other folder may put its packages before ours
            env=child_environment(self._settings, os.environ),
            stdin=subprocess.PIPE,  # its end tells that this process is gone
            start_new_session=True,  # a terminal's Ctrl-C is this process's to answer
        )

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the second in progress; the watchdog goes on and ends one that hangs."""
        if process.poll() is None:
            self._mark(WorkerState.LEAVING)
            process.send_signal(signal.SIGTERM)
            process.wait()
        assert process.stdin is not None
        process.stdin.close()
        self._mark(WorkerState.GONE)

    def _end_what_is_left(self) -> None:
        """A process that was killed with its host's others has ended nothing itself."""
        try:
            reaper.reap(self._database, self._settings)
        except DatabaseUnavailable:
            log.warning("The database is away.", extra={"action": "database_away"})

    def _mark(self, state: WorkerState) -> None:
        name = slot.slot_name(self._settings)
        try:
            for worker in workers.listed(self._database):
                if (worker.host, worker.slot) == (self._settings.host_name, name):
                    workers.set_state(self._database, worker.id, state)
        except DatabaseUnavailable:
            log.warning("A worker's state was not stored.", extra={"action": "mark"})

    def _told_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _make_loops(self) -> tuple[Loop, ...]:
        database, settings = self._database, self._settings
        publisher = reaper.Publisher(database)
        bodies = (
            ("dispatcher", lambda: dispatcher.dispatch(database, settings), dispatcher.PERIOD_S),
            ("reaper", lambda: reaper.reap(database, settings), reaper.PERIOD_S),
            ("watchdog", lambda: watchdog.watch(database, settings), watchdog.PERIOD_S),
            ("publisher", publisher.publish_missing, reaper.PUBLISH_PERIOD_S),
        )
        probe = functools.partial(epochs.unreleased, database)
        return tuple(
            Loop(name, body, probe=probe, period_s=period_s) for name, body, period_s in bodies
        )


def child_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """Our settings once, as values: a secret's file beside its value would be refused. The API's
    secrets are none of a worker's."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(PREFIX) or name.startswith(RESERVED_PREFIXES)
    }
    return kept | replace(settings, secret_key=None, api_key=None).to_environment()


def _check_tables(database: Database) -> None:
    """Raises SchemaOutdated; a database that is away may come back."""
    try:
        epochs.unreleased(database)
        workers.listed(database)
    except DatabaseUnavailable:
        log.warning("The database is away.", extra={"action": "database_away"})
