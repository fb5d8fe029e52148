"""Makes a brief in a process of its own: a render that hangs is ended and holds up nobody.

`python -m worker.press JOB` is that process.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from pipeline import journal
from pipeline.errors import OmnaiError
from pipeline.ledger.database import connect
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.settings import Settings
from worker import reaper
from worker.startup import ROOT

DATABASE_AWAY = 75
"""Exit status for what may succeed later (EX_TEMPFAIL of sysexits.h)."""

SPARE_S = 5.0
"""How much longer than its limit a process may take to go before it is killed from outside."""

log = logging.getLogger(__name__)


class Press:
    """Starts and limits one process at a time; `publish` from one thread, `leave` from any."""

    def __init__(self, environment: Mapping[str, str], *, limit_s: float) -> None:
        self._environment = dict(environment)
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._is_leaving = False

    def publish(self, job_id: str) -> bool:
        """Whether the job has its brief now. Raises DatabaseUnavailable."""
        if self._is_leaving:
            return False
        with subprocess.Popen(
            [sys.executable, "-m", "worker.press", job_id, str(self._limit_s)],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            self._process = process
            if self._is_leaving:
                process.kill()
            try:
                status = process.wait(timeout=self._limit_s + SPARE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = -signal.SIGALRM
            self._process = None
        if status == DATABASE_AWAY:
            raise DatabaseUnavailable
        if status == -signal.SIGALRM:
            log.error(
                "A brief took too long.",
                extra={"action": "publish", "job_id": job_id, "limit_s": self._limit_s},
            )
        return status == 0

    def leave(self) -> None:
        """End what is being made; whoever looks after the database next makes it."""
        self._is_leaving = True
        process = self._process
        if process is not None:
            process.kill()


def main(job_id: str, limit_s: float) -> int:
    # The system ends this process at its limit, whatever it is doing and whoever is left to see.
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    settings = Settings.from_environment()
    journal.begin(settings)
    assert settings.database_url is not None
    database = connect(settings.database_url)
    try:
        return 0 if reaper.published(database, job_id) else 1
    except DatabaseUnavailable:
        return DATABASE_AWAY
    finally:
        database.dispose()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], float(sys.argv[2])))
    except OmnaiError as error:
        log.error("A brief could not be made: %s", error.message, extra={"code": error.code})
        os._exit(1)
