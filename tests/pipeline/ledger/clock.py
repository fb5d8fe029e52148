"""A database whose `now()` a test sets, so that nothing else can have told the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy

from pipeline.ledger.database import Database, connect
from tests.pipeline.ledger.factories import rows

NOW = """
    CREATE OR REPLACE FUNCTION told.now() RETURNS timestamptz LANGUAGE sql
    AS $$ SELECT timestamptz '{}' $$
"""


@contextmanager
def told(url: str, at: str) -> Iterator[Database]:
    """Opened where `now()` is found in a schema before the system's own."""
    administrator = connect(url)
    name = sqlalchemy.make_url(url).database
    with administrator.transaction() as session:
        for statement in (
            "CREATE SCHEMA told",
            NOW.format("1970-01-01T00:00Z"),
            f'ALTER DATABASE "{name}" SET search_path = told, pg_catalog, public',
        ):
            session.execute(sqlalchemy.text(statement))
    administrator.dispose()
    database = connect(url)
    tell(database, at)
    try:
        yield database
    finally:
        database.dispose()


def tell(database: Database, at: str) -> None:
    """Set what the database takes for now, as RFC 3339."""
    with database.transaction() as session:
        session.execute(sqlalchemy.text(NOW.format(at)))
    assert rows(database, "SELECT now() = CAST(:at AS timestamptz)", at=at) == [(True,)]
