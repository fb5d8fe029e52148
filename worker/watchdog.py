"""Ends an epoch that does not get on: first in the database, then its process, then its slot."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from pipeline.ledger import epochs, tallies, workers
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey, UnreleasedEpoch
from pipeline.ledger.tallies import Tally
from pipeline.ledger.workers import WorkerState
from pipeline.records import EndReason, Phase
from pipeline.settings import Settings
from worker import reaper, slot

PERIOD_S = 1.0

GONE_S = 20.0
"""A process inside a driver call ends when the driver lets it; longer, and a person must look."""

log = logging.getLogger(__name__)


class Watchdog:
    """Looks after one slot; `watch` is called again and again, from one thread.

    A process that was killed and does not go quarantines the slot until it does: its epoch stays
    unreleased, so that nothing claims there, and its worker's row says so.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        on_end: Callable[[str], None] = lambda job_id: None,
    ) -> None:
        """`on_end` is told the id of each job that ended here and has no brief of its end yet."""
        self._database = database
        self._settings = settings
        self._on_end = on_end
        self._killed: dict[EpochKey, float] = {}
        """When, by the monotonic clock."""
        self._quarantined: set[EpochKey] = set()
        self._is_row_clear = False  # an earlier supervisor may have left it marked

    @property
    def is_quarantined(self) -> bool:
        return bool(self._quarantined)

    def watch(self) -> None:
        """Judge this slot's epoch by the limit of what it is doing; it may be fenced already."""
        settings = self._settings
        held = epochs.unreleased(
            self._database, host=settings.host_name, slot=slot.slot_name(settings)
        )
        for epoch in held:
            limit_s: float = getattr(settings.phase_limits, epoch.phase.value)
            if (epoch.now - epoch.progress_at).total_seconds() > limit_s:
                self._end(epoch, limit_s)
        self._forget({epoch.key for epoch in held})

    def _end(self, epoch: UnreleasedEpoch, limit_s: float) -> None:
        # Committed before the kill: from here on its late result is refused, and nobody can take
        # the end of the process for the fault.
        detail = (
            f"no progress within the {limit_s:g} s that the phase “{epoch.phase.value}” may take"
        )
        is_ended_here = reaper.give_up(self._database, epoch, EndReason.UNIT_TIMEOUT, detail)
        is_first = epoch.key not in self._killed
        if is_first:
            self._killed[epoch.key] = time.monotonic()
            self._kill(epoch)
        # Its end may be stored already, and its brief what it did not get on with.
        if is_ended_here or (is_first and epoch.phase is Phase.PUBLISH):
            self._on_end(epoch.key.job_id)
        if reaper.is_process_gone(epoch, self._settings):
            epochs.release(self._database, epoch.key)
        elif time.monotonic() - self._killed[epoch.key] > GONE_S:
            self._quarantine(epoch)

    def _kill(self, epoch: UnreleasedEpoch) -> None:
        # The lock tells the process that began the epoch from another with its number.
        if slot.holder(self._settings, slot.ENGINE) == epoch.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(epoch.pid, signal.SIGKILL)

    def _quarantine(self, epoch: UnreleasedEpoch) -> None:
        if epoch.key in self._quarantined:
            return
        for worker in self._workers():
            if worker.pid == epoch.pid:
                workers.set_state(self._database, worker.id, WorkerState.QUARANTINED)
        self._quarantined.add(epoch.key)
        self._is_row_clear = False
        tallies.add(self._database, Tally.GPUS_QUARANTINED)
        log.error(
            "A process does not go; its slot stays held until it does.",
            extra={"action": "quarantine", "slot": epoch.slot, **epoch.key.log_context()},
        )

    def _forget(self, held: set[EpochKey]) -> None:
        """What is released, here or by the reaper, is over; so is its quarantine."""
        self._killed = {key: at for key, at in self._killed.items() if key in held}
        self._quarantined &= held
        if self._is_row_clear or held:
            return
        for worker in self._workers():
            if worker.state is WorkerState.QUARANTINED:
                workers.set_state(self._database, worker.id, WorkerState.GONE)
                log.warning(
                    "The process has gone; its slot is free.",
                    extra={"action": "quarantine_over", "slot": worker.slot},
                )
        self._is_row_clear = True

    def _workers(self) -> list[workers.Worker]:
        settings = self._settings
        name = slot.slot_name(settings)
        return [
            worker
            for worker in workers.listed(self._database)
            if (worker.host, worker.slot) == (settings.host_name, name)
        ]
