"""The hourly sweep of a worker: it tells what it removed, and outlives a storage that is away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import OmnaiError
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import BlobsUnavailable, DatabaseUnavailable
from pipeline.ledger.sweep import Swept
from pipeline.settings import Settings
from worker import sweeper
from worker.supervisor import Supervisor


@pytest.fixture
def settings(database_url: str, valkey_url: str, tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, database_url=database_url, redis_url=valkey_url)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    made = connect(str(settings.database_url))
    yield made
    made.dispose()


def test_a_supervisor_sweeps_and_says_only_what_it_removed(
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    (loop,) = [loop for loop in Supervisor(settings, database)._loops if loop.name == "sweeper"]
    loop._body()
    assert caplog.records == []
    monkeypatch.setattr(sweeper, "sweep", lambda *_: Swept(jobs=1, frames=2, parts=3))
    loop._body()
    (record,) = caplog.records
    assert (record.action, record.count, record.files) == ("sweep", 1, 5)


def test_storage_that_is_away_is_told_and_only_a_lost_database_is_the_loops(
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    away: list[OmnaiError | OSError] = [
        BlobsUnavailable("no answer from https://secret"),
        OSError(13, "no"),
    ]

    def fail(*given: object) -> Swept:
        raise away.pop(0)

    monkeypatch.setattr(sweeper, "sweep", fail)
    for name in ("BlobsUnavailable", "PermissionError"):
        sweeper.sweep_once(database, settings)
        assert vars(caplog.records[-1])["error"] == name
        assert "secret" not in caplog.text
    away.append(DatabaseUnavailable())
    with pytest.raises(DatabaseUnavailable):
        sweeper.sweep_once(database, settings)
