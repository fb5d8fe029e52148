"""Deletes what has expired and removes what no row names, once an hour on every worker host."""

from __future__ import annotations

import logging

from pipeline.errors import OmnaiError
from pipeline.ledger.database import Database
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.storage import open_storage
from pipeline.ledger.sweep import sweep
from pipeline.settings import Settings

PERIOD_S = 3600.0
"""What it removes is a day old at least, so that an hour more is nothing."""

log = logging.getLogger(__name__)


def sweep_once(database: Database, settings: Settings) -> None:
    """Storage that is away is told and tried again with the next period."""
    try:
        swept = sweep(database, open_storage(settings), settings)
    except DatabaseUnavailable:
        raise
    except (OmnaiError, OSError) as error:
        log.warning(
            "Not all could be removed that may go; it will be tried again.",
            extra={"action": "sweep", "error": type(error).__name__},
        )
        return
    rows = swept.jobs + swept.recordings
    files = swept.blobs + swept.frames + swept.uploads + swept.parts
    if rows or files:
        log.info(
            "Jobs and recordings were deleted, and files removed.",
            extra={"action": "sweep", "count": rows, "files": files},
        )
