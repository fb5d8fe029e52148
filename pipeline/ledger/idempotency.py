"""One answer to a request that comes twice with the same idempotency key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger import presence
from pipeline.ledger.database import Database
from pipeline.ledger.errors import IdempotencyConflict, IdempotencyInFlight
from pipeline.ledger.schema import IdempotencyRow

KEPT = timedelta(hours=24)
"""An answer is given again for this long; then the key may be used anew."""

UNANSWERED = timedelta(minutes=10)
"""A request without an answer for this long has died, where nothing tells sooner: its process is
gone, and the database's server may not have seen it; another may take over."""


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """This request is the first with its key: it does the work and keeps its answer, or abandons.

    The answer is kept in the transaction that does the work: whoever asks again after a crash
    finds both or neither.
    """

    owner: str
    route: str
    key: str
    attempt: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The answer that the first request got."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def begin(
    database: Database, *, owner: str, key: str, route: str, payload_sha256: str
) -> Fresh | Stored:
    """Raises IdempotencyConflict for another payload, IdempotencyInFlight for no answer yet.

    Takes over from a request whose process is gone.
    """
    fresh = Fresh(owner=owner, route=route, key=key, attempt=database.present())
    with database.transaction() as session:
        if _inserted(session, fresh, payload_sha256):
            return fresh
        wanted = (
            select(
                IdempotencyRow,
                IdempotencyRow.begun_at < func.now() - KEPT,
                IdempotencyRow.begun_at < func.now() - UNANSWERED,
            )
            .where(*_named(fresh))
            .with_for_update()
        )
        found = session.execute(wanted).tuples().one_or_none()
        if found is None:
            # It was abandoned between the two statements: that request is over, just now.
            raise IdempotencyInFlight
        row, is_old, is_dead = found
        if not is_old:
            if row.payload_sha256 != payload_sha256:
                raise IdempotencyConflict
            if row.status is not None:
                return _stored(row)
            if not is_dead and not presence.is_gone(session, row.attempt):
                raise IdempotencyInFlight
        _take_over(session, fresh, payload_sha256)
        return fresh


def keep(session: Session, fresh: Fresh, answer: Stored) -> None:
    """Keep the answer with what else this transaction writes.

    Raises IdempotencyInFlight where another request has taken over; nothing may be written then.
    """
    kept = session.execute(
        update(IdempotencyRow)
        .where(
            *_named(fresh),
            IdempotencyRow.attempt == fresh.attempt,
            IdempotencyRow.answered_at.is_(None),
        )
        .values(
            answered_at=func.now(),
            status=answer.status,
            body=answer.body,
            headers=dict(answer.headers),
        )
        .returning(IdempotencyRow.attempt)
    )
    if kept.one_or_none() is None:
        raise IdempotencyInFlight


def abandon(database: Database, fresh: Fresh) -> bool:
    """Nothing was done, so that the same key may try again; return whether this call freed it."""
    with database.transaction() as session:
        freed = session.execute(
            delete(IdempotencyRow)
            .where(
                *_named(fresh),
                IdempotencyRow.attempt == fresh.attempt,
                IdempotencyRow.answered_at.is_(None),
            )
            .returning(IdempotencyRow.attempt)
        )
        return freed.one_or_none() is not None


def forget(database: Database) -> None:
    """Drop what is given to nobody any more."""
    with database.transaction() as session:
        session.execute(delete(IdempotencyRow).where(IdempotencyRow.begun_at < func.now() - KEPT))


def _inserted(session: Session, fresh: Fresh, payload_sha256: str) -> bool:
    inserted = session.execute(
        insert(IdempotencyRow)
        .values(
            owner=fresh.owner,
            route=fresh.route,
            key=fresh.key,
            payload_sha256=payload_sha256,
            attempt=fresh.attempt,
        )
        .on_conflict_do_nothing()
        .returning(IdempotencyRow.attempt)
    )
    return inserted.one_or_none() is not None


def _take_over(session: Session, fresh: Fresh, payload_sha256: str) -> None:
    session.execute(
        update(IdempotencyRow)
        .where(*_named(fresh))
        .values(
            payload_sha256=payload_sha256,
            attempt=fresh.attempt,
            begun_at=func.now(),
            answered_at=None,
            status=None,
            body=None,
            headers=None,
        )
        .execution_options(synchronize_session=False)
    )


def _named(fresh: Fresh) -> tuple[ColumnElement[bool], ...]:
    return (
        IdempotencyRow.owner == fresh.owner,
        IdempotencyRow.route == fresh.route,
        IdempotencyRow.key == fresh.key,
    )


def _stored(row: IdempotencyRow) -> Stored:
    return Stored(
        status=row.status or 0,
        body=row.body or b"",
        headers={name: str(value) for name, value in (row.headers or {}).items()},
    )
