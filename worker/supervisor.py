"""Keeps one Celery worker running and looks after what it runs; owns no engine and no task."""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import FrameType

from pipeline import journal
from pipeline.ledger import epochs, workers
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.workers import WorkerState
from pipeline.settings import PREFIX, RESERVED_PREFIXES, Settings
from worker import dispatcher, reaper, slot, sweeper, watchdog
from worker.app import make_app
from worker.loop import Loop
from worker.press import Press
from worker.startup import (
    REFUSED,
    ROOT,
    check_broker,
    check_engine,
    check_installation,
    check_queue,
)
from worker.told import Told
from worker.watchdog import Watchdog

POLL_S = 0.1
BACKOFF_S: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
RELOADS_MAX = 8
"""How often a replacement may fail to load an engine that had loaded before: after a kill a driver
needs time, and with the pauses above these are four minutes. A first start gets none."""

HELD_POLL_S = 0.5

LEAVE_S = 5.0
"""What Celery's own process may take once the engine's is gone; it needs a tenth of a second."""

PUBLISHER = "publisher"

STEADY_S = 120.0
"""A Celery worker that lived so long had a good start; the next pause is a short one again."""

log = logging.getLogger(__name__)


def run(settings: Settings) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP, or until the engine cannot be loaded; return the
    process's exit status.

    Called from the main thread of a process of its own. Raises OmnaiError before anything is
    started: WorkerRefused, SettingsRefused, SlotTaken, SchemaOutdated.
    """
    journal.begin(settings)
    settings = replace(settings, data_dir=settings.data_dir.absolute())
    check_installation(settings)
    check_engine(settings)
    settings = slot.pinned(settings)
    check_queue(make_app(settings).conf, engine=settings.engine)
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
        self._stop = Told()
        self._press = Press(
            child_environment(settings, os.environ), limit_s=settings.phase_limits.publish
        )
        self._publisher = reaper.Publisher(database, make=self._press.publish)
        self._watchdog = Watchdog(database, settings, on_end=self._want_brief)
        self._loops = self._make_loops()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._told_to_stop)
        for loop in self._loops:
            loop.start()
        try:
            is_refused = self._keep_running()
        finally:
            for loop in self._loops:
                loop.leave()
            self._press.leave()
        self._end_what_is_left()
        if is_refused:
            return REFUSED
        is_watched = all(loop.is_alive() or self._stop.is_set() for loop in self._loops)
        return 0 if is_watched else 1

    def _keep_running(self) -> bool:
        """Return whether the engine cannot be loaded here, so that another start would not help."""
        slot.take_loaded(self._settings)  # an earlier supervisor's word
        has_loaded, failures, refusals = False, 0, 0
        while self._is_slot_free():
            began = time.monotonic()
            process = self._start()
            try:
                while self._may_go_on() and process.poll() is None:
                    self._stop.wait(POLL_S)
            finally:
                self._end(process)
            if not self._may_go_on():
                return False
            if slot.take_loaded(self._settings):
                has_loaded, refusals = True, 0
            if process.returncode == REFUSED:
                refusals += 1
                if not has_loaded or refusals > RELOADS_MAX:
                    log.error("The worker cannot begin; see above.", extra={"action": "refused"})
                    return True
            failures = 0 if time.monotonic() - began > STEADY_S else failures + 1
            pause_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] if failures else BACKOFF_S[0]
            log.warning(
                "The Celery worker ended; another is started.",
                extra={"action": "replace", "status": process.returncode, "pause_s": pause_s},
            )
            self._stop.wait(pause_s)
        return False

    def _is_slot_free(self) -> bool:
        """Wait for the process before to let go of the engine; false where this one should leave.

        Another would load beside it or end at the lock, again and again.
        """
        is_told = False
        while self._may_go_on():
            pid = slot.holder(self._settings, slot.ENGINE)
            if pid is None:
                return True
            if not is_told:
                log.warning(
                    "The slot's last process is still there; nothing is started before it goes.",
                    extra={"action": "slot_held", "other_pid": pid},
                )
                is_told = True
            self._stop.wait(HELD_POLL_S)
        return False

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
            process.send_signal(signal.SIGTERM)
            self._mark(WorkerState.LEAVING)
            self._await_end(process)
        assert process.stdin is not None
        process.stdin.close()
        self._mark(WorkerState.GONE)

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        """Celery's own process goes with the engine's; killed where it does not, or never can."""
        free_since = None
        while process.poll() is None:
            now = time.monotonic()
            if slot.holder(self._settings, slot.ENGINE) is not None:
                free_since = None
            elif free_since is None:
                free_since = now
            is_late = free_since is not None and now - free_since > LEAVE_S
            if is_late or self._watchdog.is_quarantined:
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=LEAVE_S)
                return
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=POLL_S)

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
                if (worker.host, worker.slot) != (self._settings.host_name, name):
                    continue
                if worker.state is not WorkerState.QUARANTINED:  # the watchdog's to lift
                    workers.set_state(self._database, worker.id, state)
        except DatabaseUnavailable:
            log.warning("A worker's state was not stored.", extra={"action": "mark"})

    def _told_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _want_brief(self, job_id: str) -> None:
        self._publisher.want(job_id)
        for loop in self._loops:
            if loop.name == PUBLISHER:
                loop.wake()

    def _make_loops(self) -> tuple[Loop, ...]:
        database, settings = self._database, self._settings
        bodies = (
            ("dispatcher", lambda: dispatcher.dispatch(database, settings), dispatcher.PERIOD_S),
            (
                "reaper",
                lambda: reaper.reap(database, settings, on_end=self._want_brief),
                reaper.PERIOD_S,
            ),
            ("watchdog", self._watchdog.watch, watchdog.PERIOD_S),
            (PUBLISHER, self._publisher.publish_missing, reaper.PUBLISH_PERIOD_S),
            ("sweeper", lambda: sweeper.sweep_once(database, settings), sweeper.PERIOD_S),
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
