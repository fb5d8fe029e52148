"""Ends the epochs of workers that are lost, and sees that what has ended gets its brief."""

from __future__ import annotations

import logging
import os

from pipeline.errors import OmnaiError
from pipeline.ledger import epochs, jobs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.ledger.errors import DatabaseUnavailable
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

log = logging.getLogger(__name__)


def reap(database: Database, settings: Settings) -> None:
    """Fail what is lost, never queue it again; free a slot only once its process is gone."""
    for epoch in epochs.unreleased(database):
        if not epoch.is_fenced and _is_lost(epoch, settings):
            give_up(database, epoch, EndReason.WORKER_LOST, "the worker process was lost")
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
            give_up(database, epoch, EndReason.WORKER_LOST, "the worker process was lost")
            epochs.release(database, epoch.key)


def give_up(database: Database, epoch: UnreleasedEpoch, reason: EndReason, detail: str) -> bool:
    """End somebody else's epoch and publish what it completed; return whether this call did it."""
    key = epoch.key
    if jobs.give_up(database, key, end_reason=reason, end_detail=detail) is None:
        return False
    log.warning(
        "An epoch was given up.",
        extra={"action": "give_up", "end_reason": reason.value, **key.log_context()},
    )
    _publish(database, key.job_id)
    return True


def is_process_gone(epoch: UnreleasedEpoch, settings: Settings) -> bool:
    """Only a process of this host can be known to be gone."""
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

    def __init__(self, database: Database, *, after_s: float = PUBLISH_AFTER_S) -> None:
        self._database = database
        self._after_s = after_s
        self._failed: set[str] = set()

    def publish_missing(self) -> None:
        for job_id in unpublished(
            self._database, after_s=self._after_s, limit=PUBLISH_AT_ONCE + len(self._failed)
        ):
            if job_id not in self._failed and not _publish(self._database, job_id):
                self._failed.add(job_id)


def _publish(database: Database, job_id: str) -> bool:
    """A brief that cannot be made is a fault, but must not keep the others from being made."""
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
