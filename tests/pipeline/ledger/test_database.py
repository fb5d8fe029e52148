"""The pool: what it says when the database is away, and what it never says."""

from __future__ import annotations

import logging
import traceback

import pytest
from sqlalchemy import text

from pipeline.errors import SettingsRefused
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import DatabaseUnavailable, LedgerRefused, SchemaOutdated

SECRET = "hunter2"


def test_an_absent_server_is_unavailable_and_its_address_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    database = connect(f"postgresql+psycopg://mallory:{SECRET}@127.0.0.1:1/vault")
    with pytest.raises(DatabaseUnavailable) as caught, database.transaction() as session:
        session.execute(text("SELECT 1"))
    assert caught.value.code == "database_unavailable"
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    for private in (SECRET, "mallory", "127.0.0.1", "vault"):
        assert private not in told


@pytest.mark.parametrize(
    "url", ["sqlite://", "postgresql://u:hunter2@h/d", "hunter2", "postgresql+psycopg://h:x/d"]
)
def test_a_url_of_another_kind_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(SettingsRefused) as caught:
        connect(url)
    assert SECRET not in str(caught.value)
    assert "postgresql+psycopg://" in str(caught.value)


def test_a_connection_that_is_cut_is_unavailable_and_the_next_one_works(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable), database.transaction() as session:
        session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    with database.transaction() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_a_pooled_connection_that_died_idle_is_replaced_unseen(
    database: Database, module_database_url: str
) -> None:
    with database.transaction() as session:
        pid = session.scalar(text("SELECT pg_backend_pid()"))
    other = connect(module_database_url)
    with other.transaction() as session:
        session.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    other.dispose()
    with database.transaction() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_waits_are_bounded_and_the_clock_is_utc(database: Database) -> None:
    with database.transaction() as session:
        shown = {
            name: session.scalar(text(f"SHOW {name}"))
            for name in ("statement_timeout", "lock_timeout", "timezone")
        }
    assert shown == {"statement_timeout": "1min", "lock_timeout": "15s", "timezone": "UTC"}


def test_a_statement_past_its_limit_is_unavailable(database_url: str) -> None:
    database = connect(database_url)
    with database.transaction() as session:
        session.execute(text("SET statement_timeout = 20"))
    with pytest.raises(DatabaseUnavailable, match="57014"), database.transaction() as session:
        session.execute(text("SELECT pg_sleep(5)"))
    database.dispose()


@pytest.mark.parametrize(
    "state",
    ["08006", "25006", "40001", "40P01", "53200", "53300", "55P03", "57P01", "57P03", "58030"],
)
def test_what_may_pass_is_no_refusal(database: Database, state: str) -> None:
    raised = text(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")
    with pytest.raises(DatabaseUnavailable, match=state), database.transaction() as session:
        session.execute(raised)


def test_a_refused_write_names_the_constraint_and_no_value(database: Database) -> None:
    statement = text("INSERT INTO blobs (sha256, size_bytes) VALUES (:sha256, 1)")
    with pytest.raises(LedgerRefused) as caught, database.transaction() as session:
        session.execute(statement, {"sha256": "a portfolio secret"})
    assert caught.value.constraint == "ck_blobs_sha256_is_a_digest"
    assert "portfolio secret" not in "".join(traceback.format_exception(caught.value))


def test_a_database_without_tables_says_what_to_run(postgres_url: str) -> None:
    database = connect(postgres_url)
    with pytest.raises(SchemaOutdated, match="omnai db upgrade"), database.transaction() as session:
        session.execute(text("SELECT 1 FROM jobs"))
    database.dispose()


def test_a_block_that_raises_keeps_nothing(database: Database) -> None:
    insert = text(f"INSERT INTO blobs (sha256, size_bytes) VALUES ('{'a' * 64}', 1)")
    with pytest.raises(ZeroDivisionError), database.transaction() as session:
        assert session.execute(insert).rowcount / 0  # type: ignore[attr-defined]
    with database.transaction() as session:
        assert session.scalar(text("SELECT count(*) FROM blobs")) == 0
