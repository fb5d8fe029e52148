"""Ends an epoch that does not get on: first in the database, then its process, then its slot."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress

from pipeline.ledger import epochs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.records import EndReason
from pipeline.settings import Settings
from worker import reaper, slot
from worker.processes import is_gone_within

PERIOD_S = 1.0

GONE_S = 20.0
"""A process inside a driver call ends when the driver lets it; longer, and a person must look."""

log = logging.getLogger(__name__)


def watch(database: Database, settings: Settings) -> None:
    """Judge this slot's epoch by the limit of what it is doing; it may be fenced already."""
    for epoch in epochs.unreleased(
        database, host=settings.host_name, slot=slot.slot_name(settings)
    ):
        limit_s: float = getattr(settings.phase_limits, epoch.phase.value)
        if (epoch.now - epoch.progress_at).total_seconds() > limit_s:
            _end(database, settings, epoch, limit_s)


def _end(database: Database, settings: Settings, epoch: UnreleasedEpoch, limit_s: float) -> None:
    # Committed before the kill: from here on its late result is refused, and nobody can take the
    # end of the process for the fault.
    reaper.give_up(
        database,
        epoch,
        EndReason.UNIT_TIMEOUT,
        f"no progress within the {limit_s:g} s that the phase “{epoch.phase.value}” may take",
    )
    # The lock tells the process that began the epoch from another with its number.
    if slot.holder(settings, slot.ENGINE) == epoch.pid:
        with suppress(ProcessLookupError):
            os.kill(epoch.pid, signal.SIGKILL)
    if is_gone_within(epoch.pid, GONE_S):
        epochs.release(database, epoch.key)
        return
    log.error(
        "A process does not go; its slot stays held until it does.",
        extra={"action": "quarantine", "slot": epoch.slot, **epoch.key.log_context()},
    )
