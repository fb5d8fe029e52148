"""Pause, resume and drain, asked for on the command line while a real worker works."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner
from werkzeug.serving import make_server

from api import make_app
from omnai.cli import app
from omnai.commands import queue as queue_commands
from pipeline.engine.registry import TEST_ENGINE
from pipeline.ledger import keys
from pipeline.ledger.keys import Role
from pipeline.records import JobState
from tests.hosts import until
from tests.worker.conftest import Host
from worker.enqueue import ring

Run = Callable[..., Result]


@pytest.fixture
def omnai(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """`omnai …` as an admin of an API over the same database."""
    monkeypatch.setattr(queue_commands, "POLL_S", 0.2)
    made = make_app(host.settings, engines=(TEST_ENGINE,))
    server = make_server("127.0.0.1", 0, made, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    _, secret = keys.create(host.database, owner="root", role=Role.ADMIN, label="", expires_at=None)
    environment = host.settings.to_environment() | {
        "OMNAI_API_URL": f"http://127.0.0.1:{server.server_port}",
        "OMNAI_API_KEY": secret,
        "COLUMNS": "200",
    }

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, env=environment)

    yield call
    made.extensions["omnai"].watcher.close()
    server.shutdown()
    thread.join()
    server.server_close()
    made.extensions["omnai"].database.dispose()


def test_no_job_is_lost_by_a_pause_a_resume_and_a_drain(host: Host, omnai: Run) -> None:
    host.pace(unit_s=1.0)
    host.start()
    first = host.submit(start_s=60)
    assert ring(host.settings)
    host.running(units=1)

    # Paused in the middle: what runs goes on, what comes waits, whatever rings.
    paused = omnai("queue", "pause")
    assert (paused.exit_code, "running: 1" in paused.output) == (0, True), paused.output
    host.pace()
    second = host.submit(start_s=60)
    assert ring(host.settings)
    host.await_state(first, JobState.SUCCEEDED)
    until(lambda: host.held() == 0)
    assert ring(host.settings)
    time.sleep(1.2)  # two rounds of the dispatcher
    assert host.state(second) is JobState.QUEUED
    shown = omnai("queue").output
    assert "the queue is paused; running: 0; queued: 1" in shown
    [row] = [line for line in shown.splitlines() if second in line]
    assert row.split()[:3] == ["1", second, "sample.mp4"]
    assert row.count("paused") == 2  # in the place of both times

    # Nobody has to ring: the dispatcher does.
    host.pace(unit_s=1.0)
    assert omnai("queue", "resume").exit_code == 0
    host.await_state(second, JobState.RUNNING)

    # A drain that may not wait says what still runs; one that may waits for its end.
    third = host.submit(start_s=66)
    hurried = omnai("queue", "drain", "--wait", "0")
    assert (hurried.exit_code, "still running: 1" in hurried.output) == (3, True), hurried.output
    host.pace()
    drained = omnai("queue", "drain", "--wait", "60", "--json")
    told: dict[str, Any] = json.loads(drained.output)
    assert (drained.exit_code, told["state"], told["running"]) == (0, "draining", 0)
    assert (host.state(second), host.held()) == (JobState.SUCCEEDED, 0)
    assert host.state(third) is JobState.QUEUED
    assert omnai("queue", "resume", "--json").exit_code == 0
    host.await_state(third, JobState.SUCCEEDED)
    for job_id in (first, second, third):
        assert len(host.ended(job_id).epochs) == 1
