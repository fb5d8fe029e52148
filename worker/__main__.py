"""The Celery worker that the supervisor starts: `python -m worker`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

from pipeline import journal
from pipeline.errors import OmnaiError
from pipeline.settings import Settings
from worker import leaving, slot
from worker.app import make_app, queue_name
from worker.pool import SOLO, pool_name
from worker.startup import REFUSED, REFUSED_SIGNAL, check_installation, check_queue

log = logging.getLogger(__name__)


def main() -> int:
    try:
        settings = Settings.from_environment()
        journal.begin(settings, slot=slot.slot_name(settings))
        check_installation(settings)
        app = make_app(settings)
        check_queue(app.conf, engine=settings.engine)
    except OmnaiError as error:
        log.error("The worker cannot begin: %s", error.message, extra={"code": error.code})
        return REFUSED
    if pool_name() == SOLO:
        log.warning("This host has no semaphores; the engine runs in Celery's own process.")
    _say_nothing()
    leaving.expect_no_goodbyes()
    threading.Thread(target=_leave_with_supervisor, name="supervisor-watch", daemon=True).start()
    signal.signal(REFUSED_SIGNAL, leaving.refuse)
    app.worker_main(
        [
            *("--quiet", "worker", "--loglevel=WARNING", f"--queues={queue_name(settings.engine)}"),
            f"--hostname=omnai-{settings.slot}@{settings.host_name}",
            # Workers need not know each other, and looking for others delays every reconnection.
            *("--without-mingle", "--without-gossip", "--without-heartbeat"),
        ]
    )
    return leaving.status()


def _say_nothing() -> None:
    """On standard output, where Celery tells of its end and a model's code may print: neither is a
    line of the log."""
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)


def _leave_with_supervisor() -> None:
    """A killed supervisor closes its end of the pipe; nobody would look after this worker then."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
