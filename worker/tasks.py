"""The one task, and what Celery tells the process that runs it."""

from __future__ import annotations

import logging
import os
import signal

from billiard import active_children  # type: ignore[import-untyped]
from celery import shared_task  # type: ignore[import-untyped]
from celery.signals import (  # type: ignore[import-untyped]
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)

from pipeline import journal
from pipeline.errors import OmnaiError
from pipeline.settings import Settings
from worker import leaving, slot
from worker.app import TASK
from worker.lifecycle import EngineNotLoaded, Lifecycle
from worker.pool import SOLO, pool_name
from worker.startup import REFUSED, REFUSED_SIGNAL

log = logging.getLogger(__name__)

_lifecycle: Lifecycle | None = None


@shared_task(name=TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def look_for_work() -> None:
    """Run at most one job. Says nothing of which: the database decides."""
    assert _lifecycle is not None
    station = _lifecycle.station
    assert station is not None
    if pool_name() == SOLO:  # SIGTERM is Celery's here; `leave` passes it on
        station.work()
    else:
        with _lifecycle.leaving_on_sigterm(station):
            station.work()
    if station.is_leaving:
        os._exit(0)  # at once: Celery would first wait for its own poll
    if station.is_lost:
        log.error("The engine is lost; another process takes its place.")
        os._exit(1)


def write_logs(**_: object) -> None:
    """Celery sets up nothing of its own where somebody answers this signal."""
    settings = Settings.from_environment()
    journal.begin(settings, slot=slot.slot_name(settings))


def begin(**_: object) -> None:
    """A process that cannot load its engine takes the whole Celery worker with it: the supervisor
    starts another after a pause, where the pool would try again at once and for ever."""
    global _lifecycle
    _lifecycle = Lifecycle(Settings.from_environment())
    is_refused = False
    try:
        _lifecycle.begin()
    except EngineNotLoaded as error:
        is_refused = True
        log.error("The engine cannot be loaded: %s", error.message, extra={"code": error.code})
    except OmnaiError as error:
        log.error("The worker cannot begin: %s", error.message, extra={"code": error.code})
    except Exception:
        # Celery would swallow it, and every bell would reach a process without an engine.
        log.exception("The worker cannot begin.")
    if _lifecycle.station is None:
        if pool_name() != SOLO:
            if is_refused:
                os.kill(os.getppid(), REFUSED_SIGNAL)
            os.kill(os.getppid(), signal.SIGTERM)
        os._exit(REFUSED if is_refused else 1)


def end(exitcode: int, **_: object) -> None:
    """Billiard would tell the pool, which waits for the process itself, and then sleep a second."""
    if _lifecycle is not None:
        _lifecycle.end()
    os._exit(exitcode)


def leave(**_: object) -> None:
    """Celery would wait for the job in progress without a word to the process that runs it."""
    if _lifecycle is not None and _lifecycle.station is not None:  # the process is this one
        _lifecycle.leave(_lifecycle.station)
        return
    leaving.after(process.pid for process in active_children() if process.pid is not None)


def take_signals(**_: object) -> None:
    leaving.as_on_sigterm()


setup_logging.connect(write_logs)
worker_process_init.connect(begin)
worker_process_shutdown.connect(end)
worker_shutting_down.connect(leave)
worker_ready.connect(take_signals)
