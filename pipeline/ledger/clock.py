"""The one clock that everything is judged by: the database's."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select

from pipeline.ledger.database import Database


def now(database: Database) -> datetime:
    with database.transaction() as session:
        return session.execute(select(func.now())).scalar_one()
