"""Ends the epochs of workers that are lost, and sees that what has ended gets its brief."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from queue import SimpleQueue

from pipeline.errors import OmnaiError
from pipeline.ledger import epochs, jobs, tallies
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.tallies import Tally
from pipeline.ledger.unpublished import unpublished
from pipeline.publish import publish
from pipeline.records import EndReason
from pipeline.release import RELEASE
from pipeline.settings import Settings
from worker import slot
from worker.processes import is_gone

PERIOD_S = 2.0

PUBLISH_PERIOD_S = 10.0
PUBLISH_AFTER_S = 30.0
"""Whoever ended a job publishes it; this is for those who could not."""
PUBLISH_AT_ONCE = 20

LOST_DETAIL = "the worker process was lost"

log = logging.getLogger(__name__)


def reap(
    database: Database, settings: Settings, *, on_end: Callable[[str], None] = lambda job_id: None
) -> None:
    """Fail what is lost, never queue it again; free a slot only once its process is gone.

    `on_end` is told the id of each job that ended here and has no brief of its end yet.
    """
    for epoch in epochs.unreleased(database):
        if not epoch.is_fenced and _is_lost(epoch, settings):
            if give_up(database, epoch, EndReason.WORKER_LOST, LOST_DETAIL):
                tallies.add(database, Tally.EPOCHS_REAPED)
                on_end(epoch.key.job_id)
        elif not epoch.is_fenced:
            continue
        if is_process_gone(epoch, settings):
            epochs.release(database, epoch.key)


def clear_slot(database: Database, settings: Settings) -> None:
    """End what a predecessor left in this slot, before anything is claimed.

    The caller holds the slot's engine lock, so that a process of the same number is not the one
    that began the epoch: in a container they are the same at every start.
    """
    name = slot.slot_name(settings)
    for epoch in epochs.unreleased(database, host=settings.host_name, slot=name):
        if epoch.pid == os.getpid() or is_gone(epoch.pid) or _is_stale(epoch, settings):
            give_up(database, epoch, EndReason.WORKER_LOST, LOST_DETAIL)
            epochs.release(database, epoch.key)


def clear_local(database: Database, settings: Settings) -> None:
    """End and publish what a killed `omnai analyze` left.

    For whoever opens the same database next; no worker need ever run there.
    """
    for epoch in epochs.unreleased(database):
        if slot.is_local(epoch.slot) and _is_lost(epoch, settings):
            if give_up(database, epoch, EndReason.WORKER_LOST, LOST_DETAIL):
                published(database, epoch.key.job_id)
            epochs.release(database, epoch.key)


def give_up(database: Database, epoch: UnreleasedEpoch, reason: EndReason, detail: str) -> bool:
    """End somebody else's epoch; return whether this call did it. Its brief is the caller's care:
    a render must not keep the reaper or the watchdog from the next one."""
    key = epoch.key
    if jobs.give_up(database, key, end_reason=reason, end_detail=detail) is None:
        return False
    tallies.add(database, tallies.given_up(reason))
    log.warning(
        "An epoch was given up.",
        extra={"action": "give_up", "end_reason": reason.value, **key.log_context()},
    )
    return True


def is_process_gone(epoch: UnreleasedEpoch, settings: Settings) -> bool:
    """Only a process of this host can be known to be gone."""
    if slot.is_local(epoch.slot) and _is_stale(epoch, settings):
        return True  # its slot is of no use to anybody else
    if epoch.host != settings.host_name:
        return False
    if is_gone(epoch.pid):
        return True
    # The number may have been given to another process since. Whoever began the epoch holds the
    # slot's lock for as long as it lives.
    return (
        epoch.slot == slot.slot_name(settings)
        and _is_stale(epoch, settings)
        and slot.holder(settings, slot.ENGINE) != epoch.pid
    )


class Publisher:
    """Publishes ended jobs that have no brief of their end; what cannot be is tried once."""

    def __init__(
        self,
        database: Database,
        *,
        after_s: float = PUBLISH_AFTER_S,
        make: Callable[[str], bool] | None = None,
    ) -> None:
        """`make` publishes one job and says whether it could; by default here, without a limit."""
        self._database = database
        self._after_s = after_s
        self._make = make or functools.partial(published, database)
        self._wanted: SimpleQueue[str] = SimpleQueue()
        self._failed: set[str] = set()

    def want(self, job_id: str) -> None:
        """Nobody else publishes this one, so that the next call need not wait; from any thread."""
        self._wanted.put(job_id)

    def publish_missing(self) -> None:
        while not self._wanted.empty():
            self._try(self._wanted.get())
        for job_id in unpublished(
            self._database, after_s=self._after_s, limit=PUBLISH_AT_ONCE + len(self._failed)
        ):
            self._try(job_id)

    def _try(self, job_id: str) -> None:
        if job_id not in self._failed and not self._make(job_id):
            self._failed.add(job_id)


def published(database: Database, job_id: str) -> bool:
    """Publish a job and say whether it could be done. Raises DatabaseUnavailable.

    A brief that cannot be made is a fault, but must not keep the others from being made.
    """
    try:
        publish(database, job_id, release=RELEASE)
    except DatabaseUnavailable:
        raise
    except (OmnaiError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        log.error(
            "A brief could not be made.",
            extra={"action": "publish", "job_id": job_id, "error": type(error).__name__},
        )
        return False
    return True


def _is_lost(epoch: UnreleasedEpoch, settings: Settings) -> bool:
    is_here = epoch.host == settings.host_name
    return (is_here and is_gone(epoch.pid)) or _is_stale(epoch, settings)


def _is_stale(epoch: UnreleasedEpoch, settings: Settings) -> bool:
    return (epoch.now - epoch.alive_at).total_seconds() > settings.stale_s
