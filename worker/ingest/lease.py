"""Says every few seconds that a fetch goes on, and hears when nobody wants it any more."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from pipeline.ledger import fetches
from pipeline.ledger.database import Database
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.fetches import Claim

LEASE_S = 60.0
"""A killed process's link is taken again after this; many renewals fit into it."""

RENEW_S = 3.0
"""A canceled fetch ends within this."""

log = logging.getLogger(__name__)


class Lease:
    """A thread that renews one claim for as long as the block runs."""

    def __init__(
        self,
        database: Database,
        claim: Claim,
        *,
        lease_s: float = LEASE_S,
        renew_s: float = RENEW_S,
    ) -> None:
        self._database = database
        self._claim = claim
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._leave = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    @property
    def is_lost(self) -> bool:
        """Whether the job was canceled, or another process has taken over."""
        return self._lost.is_set()

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._leave.wait(self._renew_s):
            try:
                is_held = fetches.renew(self._database, self._claim, lease_s=self._lease_s)
            except DatabaseUnavailable:
                log.warning("A lease was not renewed.", extra=self._claim.log_context())
                continue
            if not is_held:
                self._lost.set()
                return
