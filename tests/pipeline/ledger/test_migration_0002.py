"""The service's migration: down to the first tables and up again, with rows that were there."""

from __future__ import annotations

from pipeline.ledger import dossiers, migrate
from pipeline.ledger.database import connect
from tests.pipeline.ledger.factories import record_unit, start
from tests.pipeline.ledger.queued import submit
from tests.pipeline.ledger.test_migrate import catalogue, execute


def test_it_goes_down_to_the_first_tables_and_up_again(database_url: str) -> None:
    migrate.downgrade(database_url, "0002")
    before = catalogue(database_url)
    migrate.downgrade(database_url, "0001")
    first = catalogue(database_url)
    assert migrate.current(database_url) == "0001"
    assert {table for kind, table, *_ in before - first if kind == "column"} == {
        "sign_ins",
        "uploads",
        "reruns",
        "idempotency_keys",
        "audit",
        "workers",
        "api_keys",
        "jobs",
    }
    assert first < before
    migrate.upgrade(database_url)
    assert migrate.drift(database_url) == []
    migrate.downgrade(database_url, "0002")
    assert without_places(catalogue(database_url)) == without_places(before)


def without_places(found: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """PostgreSQL never gives a dropped column's number out again."""
    return {
        (kind, table, name, how.split(" ", 1)[1] if kind == "column" else how)
        for kind, table, name, how in found
    }


def test_what_the_first_release_wrote_is_kept_both_ways(database_url: str) -> None:
    database = connect(database_url)
    try:
        migrate.downgrade(database_url, "0001")
        execute_sql(
            database_url,
            "INSERT INTO api_keys (owner, role, secret_hash) VALUES ('ana', 'admin', 'x')",
        )
        migrate.upgrade(database_url)
        key = start(database)
        record_unit(database, key)
        kept = dossiers.load(database, key.job_id)
        submit(database)
        migrate.downgrade(database_url, "0001")
        # What the release before knows of a job still takes changes: no trigger is left behind.
        execute_sql(database_url, "UPDATE jobs SET priority = 1; UPDATE epochs SET pid = 1")
        migrate.upgrade(database_url)
        assert dossiers.load(database, key.job_id) == kept
    finally:
        database.dispose()


def execute_sql(url: str, statements: str) -> None:
    for statement in statements.split("; "):
        execute(url, statement)
