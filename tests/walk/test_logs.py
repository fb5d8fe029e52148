"""What every process writes down while jobs run and fail: JSON without a word of theirs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask
from sqlalchemy import text

from pipeline import journal
from pipeline.engine.registry import TEST_ENGINE, TEST_ENGINE_VARIABLE
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import keys
from pipeline.ledger.keys import Role
from pipeline.records import JobState
from tests.api import conftest as api
from tests.api.conftest import app, settings
from tests.clips import run_ffmpeg
from tests.hosts import until
from tests.processes import needs_proc
from tests.service import await_ready, free_port, running
from tests.worker import telling
from tests.worker.conftest import SAMPLE, Host, make_host

MARK = "zanzibar"

HOLDINGS = [
    {
        "id": f"{MARK}-id",
        "name": f"{MARK} Corporation",
        "ticker": MARK.upper(),
        "currency": "USD",
        "asset_type": "equity",
        "weight_pct": 100,
        "aliases": [f"{MARK} alias"],
    }
]

__all__ = ["app", "make_host", "settings"]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that carries the word in its name and in its tags."""
    path = tmp_path_factory.mktemp("marked") / f"{MARK}.mp4"
    tags = [part for name in ("title", "comment") for part in ("-metadata", f"{name}={MARK}")]
    run_ffmpeg("-i", str(SAMPLE), "-c", "copy", *tags, str(path))
    return path


def asked(**given: Any) -> dict[str, Any]:
    return {
        "portfolio": HOLDINGS,
        "objective": f"What of {MARK}?",
        "title": f"{MARK} call",
        "options": {"start_s": 50},
        **given,
    }


def lines(told: str) -> list[dict[str, Any]]:
    for line in told.splitlines():
        assert line[:1] == "{", line
    found = [json.loads(line) for line in told.splitlines()]
    for line in found:
        assert {"time", "level", "logger", "message", "host", "pid"} <= set(line)
    return found


@needs_proc
def test_no_process_writes_down_what_people_or_the_model_say(
    make_host: Callable[..., Host], marked: Path, tmp_path: Path
) -> None:
    host = make_host(
        log_format="json", fetch_urls=True, bind=f"127.0.0.1:{free_port()}", stale_s=5.0
    )
    host.environment[TEST_ENGINE_VARIABLE] = telling.NAME
    _, secret = keys.create(host.database, owner=MARK, role=Role.ADMIN, label=MARK, expires_at=None)
    headers = {"Authorization": f"Bearer {secret}"}
    host.settings.data_dir.mkdir(exist_ok=True)
    serving = replace(host.settings, engine="rehearsal")
    with (
        running("serve", serving, tmp_path),
        running("ingest", serving, tmp_path),
        httpx.Client(base_url=f"http://{host.settings.bind}", headers=headers) as http,
    ):
        await_ready(http)
        uploaded = http.post(
            "/v1/recordings",
            params={"filename": marked.name},
            content=marked.read_bytes(),
            headers={"Content-Type": "video/mp4"},
        ).json()
        given = {"recording_id": uploaded["id"]}
        objectives = (f"{MARK}: {telling.BREAK}.", f"What of {MARK}?")
        broken, done = (
            http.post("/v1/jobs", json=asked(**given, objective=objective)).json()["id"]
            for objective in objectives
        )
        linked = asked(source_url=f"https://{MARK}.invalid/{MARK}.mp4?token={MARK}")
        fetched = http.post("/v1/jobs", json=linked).json()["id"]
        for path in (f"/v1/{MARK}", f"/v1/findings?text={MARK}&{MARK}=1", f"/v1/jobs/{MARK}"):
            assert http.get(path).status_code >= 400
        http.post("/v1/jobs", json={MARK: MARK, "portfolio": MARK})
        with host.database.transaction() as session:
            session.execute(
                text("UPDATE jobs SET engine = :engine WHERE recording_id IS NOT NULL"),
                {"engine": TEST_ENGINE},
            )
        host.start()
        host.await_state(broken, JobState.FAILED)
        host.await_state(done, JobState.SUCCEEDED)
        assert MARK in http.get(f"/v1/jobs/{done}").text
        until(lambda: "fetch" in (tmp_path / "ingest.log").read_text())
        http.post(f"/v1/jobs/{fetched}/cancel")
        for process in host.processes:
            process.terminate()
            assert process.wait(60) == 0
    logs = {path.name: path.read_text() for path in tmp_path.glob("*.log")}
    assert set(logs) == {"serve.log", "ingest.log", "supervisor.log"}
    for name, told in logs.items():
        assert MARK not in told.lower(), name
        lines(told)
    assert lines(logs["ingest.log"])
    said = lines(logs["supervisor.log"])
    ended = {line["job_id"]: line for line in said if line["message"] == "An epoch ended."}
    assert {job_id: line["end_reason"] for job_id, line in ended.items()} == {
        broken: "internal",
        done: "completed",
    }
    assert ended[broken]["epoch"] == 1
    assert {line["slot"] for line in ended.values()} == {"host/0"}
    faults = [line["exception"] for line in said if "exception" in line]
    kinds = [[fault["type"] for fault in causes] for causes in faults]
    assert ["builtins.ValueError", "builtins.KeyError"] in kinds
    assert any(causes[0]["at"][0].startswith("tests/worker/telling.py:") for causes in faults)


@pytest.fixture
def captured() -> Iterator[list[str]]:
    """Every line of this process that any logger makes, however talkative."""
    found: list[str] = []

    class Capture(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    handler, root = Capture(), logging.getLogger()
    handler.setFormatter(journal.formatter("json", {"host": "here"}))
    names = ("sqlalchemy.engine", "sqlalchemy.pool", "werkzeug", "pipeline", "api", "worker")
    before = {name: logging.getLogger(name).level for name in names}
    root_level = root.level
    root.addHandler(handler)
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(handler)
    root.setLevel(root_level)
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_not_even_the_most_talkative_library_is_told_on(
    captured: list[str], app: Flask, marked: Path
) -> None:
    ada = api.person(app, MARK)
    uploaded = ada.upload(marked.read_bytes(), marked.name).get_json()
    job = ada.post("/v1/jobs", json=asked(recording_id=uploaded["id"])).get_json()
    ada.get(f"/v1/findings?text={MARK}")
    assert api.work(app, RehearsalEngine())
    assert MARK in ada.get(f"/v1/jobs/{job['id']}/brief?format=json").text
    assert ada.get(f"/v1/jobs/{job['id']}").get_json()["state"] == "succeeded"
    loggers = {line["logger"] for line in lines("\n".join(captured))}
    assert {"sqlalchemy.engine.Engine", "worker.station"} <= loggers
    assert [line for line in captured if MARK in line.lower()] == []
