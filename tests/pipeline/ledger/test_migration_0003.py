"""The third migration: down and up again, with rows that the release before wrote."""

from __future__ import annotations

from sqlalchemy import NullPool, create_engine

from pipeline.ledger import dossiers, migrate, search
from pipeline.ledger.database import connect
from pipeline.ledger.search import Filters
from pipeline.ledger.words import parse
from tests.pipeline.ledger.factories import make_finding, record_unit, rows, start
from tests.pipeline.ledger.test_migrate import catalogue
from tests.pipeline.ledger.test_migration_0002 import execute_sql, without_places


def test_it_goes_down_to_the_second_and_up_again(database_url: str) -> None:
    before = catalogue(database_url)
    migrate.downgrade(database_url, "0003")
    third = catalogue(database_url)
    migrate.downgrade(database_url, "0002")
    second = catalogue(database_url)
    assert second < third
    assert {table for kind, table, *_ in third - second if kind == "column"} == {
        "finding_notes",
        "findings",
        "evidence",
        "holdings",
        "units",
        "briefs",
    }
    migrate.upgrade(database_url)
    assert without_places(catalogue(database_url)) == without_places(before)
    assert migrate.drift(database_url) == []


def test_what_the_release_before_wrote_is_kept_and_found(database_url: str) -> None:
    database = connect(database_url)
    try:
        key = start(database)
        finding = make_finding(evidence="営業利益率 improves.")
        record_unit(database, key, texts=[finding])
        execute_sql(
            database_url,
            "INSERT INTO briefs (job_id, revision, status, canonical_sha256, document, release)"
            f" VALUES ('{key.job_id}', 1, 'x', repeat('a', 64), 'x', '1')",
        )
        kept = dossiers.load(database, key.job_id)
        folded = rows(database, "SELECT search_text FROM findings")
        named = rows(database, "SELECT search_text FROM holdings ORDER BY position")
        assert folded[0][0]
        migrate.downgrade(database_url, "0002")
        migrate.upgrade(database_url)
        assert dossiers.load(database, key.job_id) == kept
        assert rows(database, "SELECT search_text FROM findings") == folded
        assert rows(database, "SELECT search_text FROM holdings ORDER BY position") == named
        page, _ = search.findings(
            database, Filters(query=parse("利益"), holding="SHRT"), owner=None, limit=5
        )
        assert [hit.job_id for hit in page] == [key.job_id]
    finally:
        database.dispose()


def test_the_release_before_still_writes(database_url: str) -> None:
    """Its statements name no new column."""
    database = connect(database_url)
    try:
        key = start(database)
        record_unit(database, key, texts=[make_finding()])
        engine = create_engine(database_url, poolclass=NullPool)
        with engine.begin() as connection:
            columns = (
                "job_id, epoch, {}, block, text, generated_start_ms, generated_end_ms,"
                " available_from_ms, first_sequence, last_sequence, unmatched, ambiguous, evidence,"
                " is_audio_evidence, implication, uncertainty, verification, is_closed"
            )
            connection.exec_driver_sql(
                f"INSERT INTO findings ({columns.format('turn')})"
                f" SELECT {columns.format('turn + 1')} FROM findings"
            )
        findings = dossiers.load(database, key.job_id).findings
        assert [found.marks for found in findings] == [(), ()]
        assert findings[1].turn == 1
    finally:
        database.dispose()
