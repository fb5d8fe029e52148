"""Whether the service says truly that it can serve, and says so in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.test import TestResponse

from api import make_app, readiness
from api.service import EXTENSION, Service
from pipeline.ledger import queue, workers
from pipeline.ledger.database import Database
from pipeline.ledger.queue import QueueState
from pipeline.ledger.workers import WorkerState
from pipeline.settings import Settings
from tests.bucket import made_bucket

READY = {
    "status": "ready",
    "workers_ready": 0,
    "workers_loading": 0,
    "workers_quarantined": 0,
    "workers_stale": 0,
    "queue": "open",
    "broker": "answers",
}


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


def ask(settings: Settings) -> TestResponse:
    app = make_app(settings)
    try:
        return app.test_client().get("/readyz")
    finally:
        service: Service = app.extensions[EXTENSION]
        service.watcher.close()
        service.database.dispose()


def codes(answer: TestResponse) -> list[str]:
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    found = [error["code"] for error in answer.get_json()["errors"]]
    assert answer.get_json()["code"] == found[0]
    return found


def execute(database: Database, statement: str) -> None:
    with database.transaction() as session:
        session.execute(text(statement))


def test_health_is_open_and_tells_what_delays(app: Flask, database: Database) -> None:
    client = app.test_client()
    assert client.get("/healthz").get_json() == {"status": "alive"}
    assert client.get("/readyz").get_json() == READY
    for slot, state in enumerate(
        (
            *(WorkerState.LOADING, WorkerState.READY, WorkerState.READY, WorkerState.LEAVING),
            *(WorkerState.GONE, WorkerState.QUARANTINED, WorkerState.READY),
        )
    ):
        worker_id = workers.register(
            database, host="here", slot=str(slot), engine="rehearsal", pid=1
        )
        workers.set_state(database, worker_id, state)
    execute(
        database,
        "UPDATE workers SET alive_at = now() - interval '1 h'"
        " WHERE slot = '6' OR state IN ('gone', 'quarantined')",
    )
    with database.transaction() as session:
        queue.set_state(session, QueueState.PAUSED)
    assert client.get("/readyz").get_json() == READY | {
        "workers_ready": 2,
        "workers_loading": 1,
        "workers_quarantined": 1,
        "workers_stale": 1,
        "queue": "paused",
    }


def test_tables_of_an_older_release_are_told_and_those_of_a_newer_serve(
    app: Flask, database: Database
) -> None:
    client = app.test_client()
    for stored, status in (("0007", 503), ("9999", 200), ("0001", 503)):
        execute(database, f"UPDATE alembic_version SET version_num = '{stored}'")
        assert client.get("/readyz").status_code == status, stored
    execute(database, "DELETE FROM alembic_version")
    assert codes(client.get("/readyz")) == ["schema_outdated"]
    execute(database, "DROP TABLE alembic_version")
    assert codes(client.get("/readyz")) == ["schema_outdated"]


def test_storage_that_takes_no_write_or_has_no_room_is_told(settings: Settings) -> None:
    assert codes(ask(replace(settings, free_bytes_min=1 << 60))) == ["storage_low"]
    folder = settings.data_dir / "secret"
    app = make_app(replace(settings, data_dir=folder, secret_key="x" * 32))
    with ExitStack() as closing:
        service: Service = app.extensions[EXTENSION]
        closing.callback(service.database.dispose)
        closing.callback(service.watcher.close)
        assert app.test_client().get("/readyz").status_code == 200
        folder.rmdir()  # what was written for the look is gone again
        folder.write_text("a file where the folder was")
        assert codes(app.test_client().get("/readyz")) == ["storage_unwritable"]


def test_a_bucket_is_written_to(settings: Settings, s3_url: str) -> None:
    name = made_bucket(s3_url)
    given = replace(settings, blobs=f"s3://{name}/prefix", s3_endpoint=s3_url)
    assert ask(given).get_json() == READY
    assert codes(ask(replace(given, blobs="s3://none-such"))) == ["blobs_unavailable"]


def test_what_hangs_is_told_in_time_and_holds_one_thread(
    settings: Settings, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "LIMIT_S", 0.3)
    hanging = replace(
        settings,
        database_url=f"postgresql+psycopg://nobody@127.0.0.1:{silent}/none",
        redis_url=f"redis://127.0.0.1:{silent}/0",
        blobs="s3://bucket",
        s3_endpoint=f"http://127.0.0.1:{silent}",
    )
    app = make_app(hanging)
    service: Service = app.extensions[EXTENSION]
    began = time.monotonic()
    for _ in range(5):
        answer = app.test_client().get("/readyz")
        assert codes(answer) == ["database_unavailable", "storage_unwritable"]
        assert str(silent) not in answer.text
    assert time.monotonic() - began < 4  # one connection attempt alone may take five seconds
    looking = [thread.name for thread in threading.enumerate() if thread.name.startswith("look-")]
    assert sorted(looking) in (
        ["look-broker", "look-database", "look-storage"],
        ["look-database", "look-storage"],
    )
    assert app.test_client().get("/healthz").status_code == 200
    service.watcher.close()
    service.database.dispose()


@pytest.mark.parametrize("url", [None, "redis://127.0.0.1:1/0", "redis://user:no@127.0.0.1:1/x"])
def test_a_queue_that_is_away_only_delays(settings: Settings, url: Any) -> None:
    assert ask(replace(settings, redis_url=url)).get_json() == READY | {"broker": "silent"}
