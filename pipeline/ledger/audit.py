"""Who fetched or changed what; ids only, never content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.schema import AuditRow

Fact = str | int | bool | None
"""What a detail may be: an id, a number, a name of ours."""

FACT_CHARACTERS = 200
"""No id or name of ours is longer; what is longer is content, which has no place here."""


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One thing that somebody did."""

    at: datetime
    actor: str | None
    """Id of the key it was done with; none where no key was used."""
    owner: str
    action: str
    """Stable name, for example `brief_fetched`."""
    subject: str
    """Id of what it was done to."""
    detail: Mapping[str, Fact]


def write(
    database: Database,
    *,
    actor: str | None,
    owner: str,
    action: str,
    subject: str,
    detail: Mapping[str, Fact],
) -> None:
    """Raises ValueError for a subject or detail that is no short fact."""
    with database.transaction() as session:
        put(session, actor=actor, owner=owner, action=action, subject=subject, detail=detail)


def put(
    session: Session,
    *,
    actor: str | None,
    owner: str,
    action: str,
    subject: str,
    detail: Mapping[str, Fact],
) -> None:
    """The same within a transaction: what was done and that it was done stand or fall together."""
    for fact in (subject, *detail.values()):
        if not isinstance(fact, Fact) or len(str(fact)) > FACT_CHARACTERS:
            raise ValueError(f"the audit keeps facts of at most {FACT_CHARACTERS} characters")
    session.execute(
        insert(AuditRow).values(
            key_id=actor, owner=owner, action=action, subject=subject, detail=dict(detail)
        )
    )


def listed(database: Database, *, limit: int) -> tuple[AuditEntry, ...]:
    """The newest first."""
    with database.transaction() as session:
        rows = session.scalars(select(AuditRow).order_by(AuditRow.id.desc()).limit(limit))
        return tuple(
            AuditEntry(
                at=row.at,
                actor=row.key_id,
                owner=row.owner,
                action=row.action,
                subject=row.subject,
                detail={name: _fact(value) for name, value in row.detail.items()},
            )
            for row in rows
        )


def _fact(value: object) -> Fact:
    return value if isinstance(value, Fact) else str(value)
