"""What goes wrong is counted, once each, by whoever saw it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from pipeline.ledger import tallies
from pipeline.ledger.database import Database, connect
from pipeline.settings import Settings
from tests.pipeline.ledger import factories, queued
from worker import dispatcher, enqueue, reaper, watchdog
from worker.watchdog import Watchdog


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = connect(database_url)
    yield opened
    opened.dispose()


@pytest.fixture
def settings(database_url: str, valkey_url: str, tmp_path: Path) -> Settings:
    Redis.from_url(valkey_url).flushdb()
    return Settings(
        data_dir=tmp_path, database_url=database_url, redis_url=valkey_url, host_name="host"
    )


def test_bells_and_what_kept_them_from_ringing_are_counted(
    database: Database, settings: Settings
) -> None:
    full = replace(settings, free_bytes_min=1 << 60)
    away = replace(settings, redis_url="redis://127.0.0.1:1/0")
    assert not dispatcher.dispatch(database, settings)  # nothing waits
    job_id = queued.submit(database)
    assert not dispatcher.dispatch(database, full)
    assert not enqueue.ring_for(away, database, job_id)
    assert tallies.all(database) == {"refused_space": 1, "bells_failed": 1}
    assert dispatcher.dispatch(database, settings)
    assert not dispatcher.dispatch(database, settings)  # that bell still waits
    assert tallies.all(database)["bells_rerung"] == 1


def test_what_is_reaped_given_up_and_quarantined_is_counted(
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = factories.start(database, slot="far/0", host="far")
    factories.rows(database, "UPDATE epochs SET alive_at = now() - interval '1 h' RETURNING 1")
    for _ in range(2):
        reaper.reap(database, settings)
    assert tallies.all(database) == {"epochs_reaped": 1, "epochs_given_up_worker_lost": 1}
    # Its process is this one, which holds no lock of the slot: it is not killed, and does not go.
    factories.start(database, slot="host/0", host="host", pid=os.getpid())
    factories.rows(
        database,
        "UPDATE epochs SET progress_at = now() - interval '1 h'"
        f" WHERE job_id <> '{lost.job_id}' RETURNING 1",
    )
    monkeypatch.setattr(watchdog, "GONE_S", 0.0)
    watching = Watchdog(database, settings, on_end=lambda job_id: None)
    for _ in range(3):
        watching.watch()
    assert tallies.all(database) == {
        "epochs_reaped": 1,
        "epochs_given_up_worker_lost": 1,
        "epochs_given_up_unit_timeout": 1,
        "gpus_quarantined": 1,
    }
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    caplog.clear()
