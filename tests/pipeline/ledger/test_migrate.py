"""Migrations: up, down, up again, and no drift from the models."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text

from pipeline.errors import SettingsRefused
from pipeline.ledger import migrate
from pipeline.ledger.errors import DatabaseUnavailable, DatabaseUnsuitable
from pipeline.ledger.schema import Base

UPGRADE = "import sys; from pipeline.ledger.migrate import upgrade; upgrade(sys.argv[1])"

CATALOGUE = """
    SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'column', table_name, column_name,
           concat_ws(' ', ordinal_position, data_type, udt_name, is_nullable, column_default)
      FROM information_schema.columns WHERE table_schema = 'public'
"""


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    yield from new_database(postgres_url)


@pytest.fixture
def latin_url(postgres_url: str) -> Iterator[str]:
    yield from new_database(
        postgres_url, "ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0"
    )


def new_database(server_url: str, how: str = "") -> Iterator[str]:
    name = f"omnai_test_{uuid.uuid4().hex[:12]}"
    execute(server_url, f'CREATE DATABASE "{name}" {how}')
    yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


def execute(url: str, statement: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(statement))


def catalogue(url: str) -> set[tuple[str, ...]]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        found = {tuple(row) for row in connection.execute(text(CATALOGUE))}
    return {row for row in found if row[1] != "alembic_version"}


def test_an_empty_database_is_brought_up_and_stays_up(empty_url: str) -> None:
    assert migrate.current(empty_url) is None
    assert not migrate.is_current(empty_url)
    migrate.upgrade(empty_url)
    migrate.upgrade(empty_url)
    assert migrate.is_current(empty_url)


def test_the_models_and_the_migrations_do_not_drift(database_url: str) -> None:
    assert migrate.drift(database_url) == []


def test_drift_is_seen(database_url: str) -> None:
    execute(database_url, "ALTER TABLE jobs DROP COLUMN priority")
    assert migrate.drift(database_url) != []


def test_migrated_tables_equal_the_models_tables_to_the_last_check(
    database_url: str, empty_url: str
) -> None:
    engine = create_engine(empty_url, poolclass=NullPool)
    Base.metadata.create_all(engine)
    assert catalogue(database_url) == catalogue(empty_url)


def test_down_to_nothing_and_up_again(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    before = catalogue(empty_url)
    migrate.downgrade(empty_url)
    assert catalogue(empty_url) == set()
    assert migrate.current(empty_url) is None
    migrate.upgrade(empty_url)
    assert catalogue(empty_url) == before


def test_every_constraint_and_index_is_named_by_the_convention(database_url: str) -> None:
    names = {
        (table, name)
        for kind, table, name, _ in catalogue(database_url)
        # PostgreSQL 18 keeps NOT NULL as constraints of its own naming.
        if kind in ("constraint", "index") and not name.endswith("_not_null")
    }
    assert len(names) > 60
    wrong = [name for table, name in names if not re.match(f"(pk|uq|fk|ck|ix)_{table}", name)]
    assert wrong == []


def test_two_processes_may_start_at_once(empty_url: str, repository: Path) -> None:
    command = [sys.executable, "-c", UPGRADE, empty_url]
    started = [subprocess.Popen(command, cwd=repository) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert migrate.is_current(empty_url)


def test_it_works_from_any_working_directory(
    empty_url: str, tmp_path: Path, repository: Path
) -> None:
    subprocess.run(
        [sys.executable, "-W", "error", "-c", UPGRADE, empty_url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        check=True,
    )
    assert migrate.is_current(empty_url)


def test_alembics_own_command_finds_no_drift(database_url: str, repository: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "alembic", "check"],
        cwd=repository,
        env={
            **os.environ,
            "PYTHONPATH": str(repository),
            "OMNAI_DATABASE_URL": database_url,
        },
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    assert "No new upgrade operations detected" in checked.stdout


def test_a_database_that_cannot_hold_every_text_is_refused(latin_url: str) -> None:
    with pytest.raises(DatabaseUnsuitable, match="LATIN1"):
        migrate.upgrade(latin_url)
    assert catalogue(latin_url) == set()


def test_an_absent_server_is_unavailable() -> None:
    with pytest.raises(DatabaseUnavailable):
        migrate.current("postgresql+psycopg://me:hunter2@127.0.0.1:1/none")


def test_another_databases_url_is_refused() -> None:
    with pytest.raises(SettingsRefused):
        migrate.upgrade("sqlite:///omnai.db")
