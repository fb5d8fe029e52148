"""How Celery's own process leaves: when the engine's process is gone, without its own goodbyes.

Nothing in them is of worth: no bell is kept unacknowledged, no result stored, no other worker told,
and they take seconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable
from multiprocessing.util import get_temp_dir
from types import FrameType
from typing import NoReturn

from worker.processes import is_gone
from worker.startup import REFUSED
from worker.told import Told

POLL_S = 0.02

SAME_AS_SIGTERM = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Celery's own answers to these break into the second in progress, or begin a new worker."""

TRACKER_WARNING = "ignore::UserWarning:billiard.semaphore_tracker"

_is_refused = Told()


def refuse(number: int, frame: FrameType | None) -> None:
    """The engine's process says that another start would not help."""
    _is_refused.set()


def status() -> int:
    """What this process ends with."""
    return REFUSED if _is_refused.is_set() else 0


def expect_no_goodbyes() -> None:
    """Billiard's tracker takes back the semaphores of who leaves so, and would tell each time."""
    given = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = f"{given},{TRACKER_WARNING}" if given else TRACKER_WARNING


def as_on_sigterm() -> None:
    """Answer every request to leave as SIGTERM; call it once Celery has installed its own."""
    for number in SAME_AS_SIGTERM:
        signal.signal(number, signal.getsignal(signal.SIGTERM))


def after(pids: Iterable[int]) -> NoReturn:
    """Pass SIGTERM on to these processes and end with the last of them.

    For a signal handler: while it waits nothing else of Celery runs, and nothing else needs to.
    """
    left = set(pids)
    for pid in left:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    while left:
        left = {pid for pid in left if not is_gone(pid)}
        time.sleep(POLL_S)
    shutil.rmtree(get_temp_dir(), ignore_errors=True)  # the pool's, which an ordinary end removes
    os._exit(status())
