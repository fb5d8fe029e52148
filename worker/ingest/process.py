"""The process that fetches recordings from links, until it is told to leave."""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import replace
from types import FrameType

from pipeline import journal
from pipeline.errors import Problem, SettingsRefused
from pipeline.ledger.database import connect
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.storage import open_storage
from pipeline.settings import Settings
from worker.ingest.connect import Internet
from worker.ingest.errand import Errand, Pace
from worker.startup import check_installation
from worker.told import Told

AT_ONCE = 4
"""Links that are fetched at the same time: one that drips must not hold up all others."""

POLL_S = 1.0
"""A new link waits at most so long to be seen."""

AWAY_S = 5.0

log = logging.getLogger(__name__)


def run(settings: Settings, *, internet: Internet | None = None, pace: Pace | None = None) -> int:
    """Fetch until SIGTERM, SIGINT or SIGHUP; return the process's exit status.

    Told to leave, it lets go of its links at once and keeps what has come of them, for the next
    process to go on from. Called from the main thread of a process of its own. Raises OmnaiError
    before anything is begun: SettingsRefused, WorkerRefused.
    """
    journal.begin(settings)
    if not settings.fetch_urls:
        raise SettingsRefused(
            Problem(
                code="fetching_off",
                where="OMNAI_FETCH_URLS",
                message="links are not fetched here; set it to yes for this process and the API",
            )
        )
    settings = replace(settings, data_dir=settings.data_dir.absolute())
    check_installation(settings)
    assert settings.database_url is not None
    database = connect(settings.database_url)
    leaving = threading.Event()
    errand = Errand(
        settings,
        database=database,
        blobs=open_storage(settings).blobs,
        internet=internet or Internet(),
        leaving=leaving,
        pace=pace or Pace(),
    )

    told = Told()

    def leave(number: int, frame: FrameType | None) -> None:
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)
    threads = [
        threading.Thread(target=_work, args=(errand, leaving), name=f"fetch-{number}")
        for number in range(AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    log.info("Links are fetched.", extra={"action": "ready"})
    try:
        while not told.wait(POLL_S) and all(thread.is_alive() for thread in threads):
            pass
        return 0 if told.is_set() else 1
    finally:
        leaving.set()
        for thread in threads:
            thread.join()
        database.dispose()


def _work(errand: Errand, leaving: threading.Event) -> None:
    """One link after the other. Any fault but a database that is away ends the thread, and with it
    the process: what it held is taken again by the next one."""
    while not leaving.is_set():
        try:
            if not errand.run_next():
                leaving.wait(POLL_S)
        except DatabaseUnavailable:
            log.warning("The database is away.", extra={"action": "database_away"})
            leaving.wait(AWAY_S)
