"""Bring a database to this release's tables, from any working directory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.orm import Session

from pipeline.ledger.database import CONNECT_TIMEOUT_S, parse_url, translated_errors
from pipeline.ledger.errors import DatabaseUnsuitable
from pipeline.ledger.schema import Base

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"

SERVER_VERSION_MIN = 150_000
"""PostgreSQL 15, as the server numbers itself."""


def upgrade(url: str) -> None:
    """Idempotent, and safe when two processes start at once.

    Raises DatabaseUnsuitable for an older server or another encoding than UTF-8.
    """
    with _connection(url) as connection:
        _check_server(connection)
        command.upgrade(_config(connection), "head")


def downgrade(url: str, revision: str = "base") -> None:
    """Give up the tables that newer revisions added, with what they hold."""
    with _connection(url) as connection:
        command.downgrade(_config(connection), revision)


def current(url: str) -> str | None:
    """The database's revision; none where it was never migrated."""
    with _connection(url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def is_current(url: str) -> bool:
    head = ScriptDirectory.from_config(_config(None)).get_current_head()
    return current(url) == head


def is_behind(session: Session) -> bool:
    """Whether the database lacks tables of this release. One that a newer release has migrated does
    not: each migration works with the code before it."""
    known = _revisions()
    found = session.scalar(text("SELECT to_regclass('alembic_version')"))
    stored = found and session.scalar(text("SELECT version_num FROM alembic_version"))
    return stored is None or stored in known[1:]


def drift(url: str) -> list[object]:
    """What differs between the database and the models, checks excepted; empty is right."""
    with _connection(url) as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, Base.metadata))


@functools.cache
def _revisions() -> tuple[str, ...]:
    """Of this release, the newest first."""
    script = ScriptDirectory.from_config(_config(None))
    return tuple(revision.revision for revision in script.walk_revisions())


def _config(connection: Connection | None) -> Config:
    config = Config()
    # The option passes through ConfigParser, where a percent sign begins an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _connection(url: str) -> Iterator[Connection]:
    engine = create_engine(
        parse_url(url),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "omnai-migrate"},
    )
    try:
        with translated_errors(), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _check_server(connection: Connection) -> None:
    version = connection.scalar(text("SELECT current_setting('server_version_num')::int"))
    if version is None or version < SERVER_VERSION_MIN:
        raise DatabaseUnsuitable(
            f"the server is PostgreSQL {(version or 0) // 10_000}; 15 or later would be accepted"
        )
    encoding = connection.scalar(text("SELECT current_setting('server_encoding')"))
    if encoding != "UTF8":
        raise DatabaseUnsuitable(
            f"the database's encoding is {encoding}; only UTF8 holds every text"
        )
