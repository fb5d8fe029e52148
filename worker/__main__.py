"""The Celery worker that the supervisor starts: `python -m worker`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

from pipeline.errors import OmnaiError
from pipeline.settings import Settings
from worker import journal
from worker.app import QUEUE, make_app
from worker.pool import SOLO, pool_name
from worker.startup import REFUSED, REFUSED_SIGNAL, check_installation, check_queue

log = logging.getLogger(__name__)


def main() -> int:
    journal.begin()
    try:
        settings = Settings.from_environment()
        check_installation(settings)
        app = make_app(settings)
        check_queue(app.conf)
    except OmnaiError as error:
        sys.stderr.write(f"{error.message}\n")
        return REFUSED
    if pool_name() == SOLO:
        log.warning("This host has no semaphores; the engine runs in Celery's own process.")
    threading.Thread(target=_leave_with_supervisor, name="supervisor-watch", daemon=True).start()
    is_refused = threading.Event()

    def refuse(number: int, frame: FrameType | None) -> None:
        is_refused.set()

    signal.signal(REFUSED_SIGNAL, refuse)
    app.worker_main(
        [
            *("--quiet", "worker", "--loglevel=WARNING", f"--queues={QUEUE}"),
            f"--hostname=omnai-{settings.slot}@{settings.host_name}",
            # Workers need not know each other, and looking for others delays every reconnection.
            *("--without-mingle", "--without-gossip", "--without-heartbeat"),
        ]
    )
    return REFUSED if is_refused.is_set() else 0


def _leave_with_supervisor() -> None:
    """A killed supervisor closes its end of the pipe; nobody would look after this worker then."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
