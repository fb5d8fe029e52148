"""An empty database for each test, opened as the product opens it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.schema import Base
from tests.pipeline.ledger.factories import start


@pytest.fixture(scope="module")
def opened(module_database_url: str) -> Iterator[Database]:
    database = connect(module_database_url)
    yield database
    database.dispose()


@pytest.fixture
def database(opened: Database) -> Database:
    """One for the module, emptied for each test: making a new one takes a hundred times longer."""
    with opened.transaction() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(text(f'DELETE FROM "{table.name}"'))
    return opened


@pytest.fixture
def key(database: Database) -> EpochKey:
    """The first epoch of a running job."""
    return start(database)
