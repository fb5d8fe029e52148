"""The services and stores that a command works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
def addressed(settings: Settings, *, needs_queue: bool = True) -> Iterator[Settings]:
    """Settings with an address for what is needed; embedded services run inside the block only."""
    settings = replace(settings, data_dir=settings.data_dir.absolute())
    has_queue = settings.redis_url is not None or not needs_queue
    if settings.database_url is not None and has_queue:
        yield settings
        return
    from omnai.services import EmbeddedServices

    with EmbeddedServices(settings.data_dir / "services").in_use() as services:
        yield replace(
            settings,
            database_url=settings.database_url or services.postgres.url,
            redis_url=settings.redis_url or services.valkey.url,
        )


@contextmanager
def ready(settings: Settings, *, needs_queue: bool = True) -> Iterator[Settings]:
    """The same, with this release's tables.

    The embedded database is brought up to date; a shared one never unasked: raises SchemaOutdated.
    """
    from pipeline.ledger import migrate
    from pipeline.ledger.errors import SchemaOutdated

    is_shared = settings.database_url is not None
    with addressed(settings, needs_queue=needs_queue) as found:
        assert found.database_url is not None
        if not migrate.is_current(found.database_url):
            if is_shared:
                raise SchemaOutdated
            migrate.upgrade(found.database_url)
        yield found


def clear_killed(settings: Settings) -> None:
    """Bring to rest what a killed `omnai analyze` left running."""
    from pipeline.ledger.database import connect
    from worker import reaper

    assert settings.database_url is not None
    database = connect(settings.database_url)
    try:
        reaper.clear_local(database, settings)
    finally:
        database.dispose()


@contextmanager
def opened(settings: Settings) -> Iterator[Stores]:
    """Connected stores of the database alone; no queue is needed to read or write rows."""
    from pipeline.ledger.database import connect
    from pipeline.ledger.storage import open_storage

    with ready(settings, needs_queue=False) as found:
        assert found.database_url is not None
        database = connect(found.database_url)
        try:
            yield Stores(database=database, frames=open_storage(found).frames)
        finally:
            database.dispose()
