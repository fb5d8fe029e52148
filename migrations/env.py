"""How Alembic reaches the database, for `pipeline.ledger.migrate` and for its own command line."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, NullPool, create_engine, text

from pipeline.ledger.database import parse_url
from pipeline.ledger.schema import Base
from pipeline.settings import Settings

# Any number, as long as every release takes the same one.
MIGRATION_LOCK = 6_620_001


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        context.run_migrations()


def migrate_alone() -> None:
    url = Settings.from_environment().database_url
    if url is None:
        raise SystemExit("set OMNAI_DATABASE_URL, or use `omnai db upgrade`")
    engine = create_engine(parse_url(url), poolclass=NullPool, hide_parameters=True)
    try:
        with engine.begin() as connection:
            migrate(connection)
    finally:
        engine.dispose()


if context.is_offline_mode():
    raise SystemExit("migrations run against a database; --sql is not supported")
given = context.config.attributes.get("connection")
if given is None:
    migrate_alone()
else:
    migrate(given)
