"""How often something happened since the database was made; never read to decide anything."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert

from pipeline.errors import OmnaiError
from pipeline.ledger.database import Database, Transaction, translated_errors
from pipeline.ledger.schema import TallyRow
from pipeline.records import EndReason

LOCK_TIMEOUT_MS = 1000
"""Whoever counts has something more urgent to do than to wait for another one's count."""

GIVEN_UP = "epochs_given_up_"
"""Begins the names of a count for each reason."""

log = logging.getLogger(__name__)


class Tally(str, Enum):
    """What is counted by one name."""

    BELLS_RERUNG = "bells_rerung"
    """The dispatcher rang for queued work that no bell waited for."""
    BELLS_FAILED = "bells_failed"
    """The queue did not take a bell."""
    EPOCHS_REAPED = "epochs_reaped"
    """The reaper ended an epoch whose process was lost."""
    GPUS_QUARANTINED = "gpus_quarantined"
    """A killed process did not go."""
    REFUSED_SPACE = "refused_space"
    """The free-space mark kept a claim from being made."""
    UPLOADS_REFUSED_SPACE = "uploads_refused_space"
    """A request that brought a recording, or announced one, was refused for want of room."""


def given_up(reason: EndReason) -> str:
    """The count of epochs that somebody other than their own process ended for this reason."""
    return f"{GIVEN_UP}{reason.value}"


def add(where: Database | Transaction, name: str, by: int = 1) -> None:
    """Count, together with a transaction or alone; what cannot be counted is not.

    Never raises for what a database may say, so that no work fails over its count.
    """
    try:
        if isinstance(where, Database):
            with where.transaction() as session:
                session.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
                _add(session, name, by)
        else:
            with translated_errors(), where.begin_nested():
                _add(where, name, by)
    except OmnaiError as error:
        log.debug("Something was not counted.", extra={"action": "tally", "code": error.code})


def all(database: Database) -> Mapping[str, int]:
    """By name; what was never counted is not there."""
    with database.transaction() as session:
        return read(session)


def read(session: Transaction) -> Mapping[str, int]:
    return {row.name: row.count for row in session.scalars(select(TallyRow))}


def _add(session: Transaction, name: str, by: int) -> None:
    put = insert(TallyRow).values(name=getattr(name, "value", name), count=by)
    session.execute(
        put.on_conflict_do_update(
            index_elements=[TallyRow.name], set_={"count": TallyRow.count + put.excluded.count}
        )
    )
