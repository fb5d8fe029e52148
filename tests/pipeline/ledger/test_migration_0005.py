"""The fifth migration: down and up again, with an upload that the release before left open."""

from __future__ import annotations

from pipeline.ledger import migrate
from pipeline.ledger.database import connect
from tests.pipeline.ledger.factories import rows
from tests.pipeline.ledger.test_migrate import catalogue, execute
from tests.pipeline.ledger.test_migration_0002 import without_places

PUT = "INSERT INTO uploads (owner, filename) VALUES ('ana', 'a.mp4')"


def test_an_upload_that_was_open_gets_a_day_and_still_may_be_written_as_before(
    database_url: str,
) -> None:
    before = catalogue(database_url)
    migrate.downgrade(database_url, "0004")
    execute(database_url, PUT)
    migrate.upgrade(database_url)
    execute(database_url, PUT)
    assert without_places(catalogue(database_url)) == without_places(before)
    assert migrate.drift(database_url) == []
    database = connect(database_url)
    left = rows(
        database, "SELECT extract(epoch FROM expires_at - now()) / 3600, length_bytes FROM uploads"
    )
    database.dispose()
    assert [length for _, length in left] == [None, None]
    assert all(23.9 < hours <= 24 for hours, _ in left)
