"""The database and the frame store that a command works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.ledger.database import Database
    from pipeline.ledger.frames import FrameStore


@dataclass(frozen=True, kw_only=True)
class Stores:
    """Where rows and frames go."""

    database: Database
    frames: FrameStore


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The database of the settings, else the embedded one, which runs inside the block only."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    from omnai.services import EmbeddedServices

    with EmbeddedServices(settings.data_dir / "services").in_use() as services:
        assert services.postgres.url is not None
        yield services.postgres.url


@contextmanager
def opened(settings: Settings) -> Iterator[Stores]:
    """Connected stores. The embedded database is brought up to date; a shared one never unasked.

    Raises SchemaOutdated for a shared database without this release's tables.
    """
    from pipeline.ledger import migrate
    from pipeline.ledger.database import connect
    from pipeline.ledger.errors import SchemaOutdated
    from pipeline.ledger.frames import FrameStore

    with database_url(settings) as url:
        if not migrate.is_current(url):
            if settings.database_url is not None:
                raise SchemaOutdated
            migrate.upgrade(url)
        database = connect(url)
        try:
            yield Stores(database=database, frames=FrameStore(settings.data_dir / "frames"))
        finally:
            database.dispose()
