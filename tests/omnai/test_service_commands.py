"""The commands that make keys, and those that talk to a running API."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from omnai import sending
from omnai.cli import app
from omnai.client import Client
from pipeline.ledger import keys
from pipeline.ledger.database import connect
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.api.reviewed import KEY, ended
from tests.relay import relay
from tests.service import await_ready, free_port, running

SAMPLES = Path(__file__).parents[2] / "samples"
NOBODY = "00000000-0000-4000-8000-000000000000"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def settings(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    folder = tmp_path_factory.mktemp("commands")
    database = connect(module_database_url)
    _, secret = keys.create(database, owner="ada", role=Role.ADMIN, label="", expires_at=None)
    database.dispose()
    bind = f"127.0.0.1:{free_port()}"
    return Settings(
        data_dir=folder,
        database_url=module_database_url,
        redis_url=valkey_url,
        bind=bind,
        api_url=f"http://{bind}",
        api_key=secret,
    )


@pytest.fixture(scope="module")
def api(settings: Settings) -> Iterator[None]:
    """The API alone: no worker, so that what is queued stays so."""
    with running("serve", settings, settings.data_dir):
        with httpx.Client(base_url=settings.api_url) as http:
            await_ready(http)
        yield


@pytest.fixture
def run(settings: Settings) -> Run:
    def call(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "omnai", *map(str, arguments)],
            env=os.environ | settings.to_environment() | {"COLUMNS": "200"} | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return call


def submitted(run: Run, *more: str) -> dict[str, Any]:
    ran = run(
        *("submit", SAMPLES / "sample.mp4", "--portfolio", SAMPLES / "portfolio.csv"),
        *("--objective", "What matters?", "--json", *more),
    )
    assert ran.returncode == 0, ran.stderr
    job: dict[str, Any] = json.loads(ran.stdout)
    return job


def test_a_key_is_shown_once_works_and_ends_when_it_is_revoked(api: None, run: Run) -> None:
    made = json.loads(run("keys", "create", "grace", "--label", "desk", "--json").stdout)
    assert made["role"] == "analyst"
    listed = run("keys", "list")
    assert made["id"] in listed.stdout
    assert "desk" in listed.stdout
    assert made["secret"] not in listed.stdout + run("keys", "list", "--json").stdout
    assert run("jobs", "list", OMNAI_API_KEY=made["secret"]).returncode == 0
    assert run("keys", "revoke", made["id"]).returncode == 0
    refused = run("jobs", "list", "--json", OMNAI_API_KEY=made["secret"])
    assert refused.returncode == 2
    assert json.loads(refused.stderr)["problems"][0]["code"] == "key_refused"
    assert run("keys", "revoke", made["id"]).returncode == 2


def test_submit_queues_a_job_that_list_and_show_tell_of(api: None, run: Run) -> None:
    job = submitted(run, "--title", "Investor day")
    assert job["state"] == "queued"
    assert "Investor day" in run("jobs", "list", "--state", "queued").stdout
    shown = run("jobs", "show", job["id"])
    assert "Investor day" in shown.stdout
    assert "queued" in shown.stdout


def test_a_queued_job_is_canceled_at_once_and_an_admin_may_rerun_it(api: None, run: Run) -> None:
    job = submitted(run)
    canceled = json.loads(run("jobs", "cancel", job["id"], "--json").stdout)
    assert canceled["state"] == "canceled"
    again = run("jobs", "cancel", job["id"], "--json")
    assert again.returncode == 2
    assert json.loads(again.stderr)["problems"][0]["code"] == "job_ended"
    rerun = run(
        *("jobs", "rerun", job["id"], "--from", "12", "--reason", "canceled by mistake", "--json")
    )
    assert rerun.returncode == 0, rerun.stderr
    assert json.loads(rerun.stdout)["epoch"] == 1
    assert json.loads(run("jobs", "show", job["id"], "--json").stdout)["state"] == "queued"


def test_when_a_job_is_wanted_is_told_and_the_queue_and_the_night_show_it(
    api: None, run: Run
) -> None:
    ready_by = datetime.now(timezone.utc) + timedelta(days=1)
    asked = (
        *("submit", SAMPLES / "sample.mp4", "--portfolio", SAMPLES / "portfolio.csv"),
        *("--objective", "What matters?", "--title", "Day [red]one", "--priority", "5"),
    )
    refused = run(*asked, "--ready-by", f"{ready_by:%Y-%m-%dT%H:%M:%S}", "--json")
    assert refused.returncode == 2
    assert json.loads(refused.stderr)["problems"][0]["code"] == "time_without_offset"
    ran = run(*asked, "--ready-by", ready_by.isoformat())
    assert ran.returncode == 0, ran.stderr
    why = "this installation has not run enough of its engine yet"
    assert f"whether it will be ready in time is not known: {why}" in ran.stdout
    job = ran.stdout.splitlines()[1].split()[0]
    shown = run("queue")
    assert "the queue is open; running: 0; queued:" in shown.stdout
    [row] = [line for line in shown.stdout.splitlines() if job in line]
    assert "Day [red]one" in row
    assert row.count("pace not known") == 2
    report = run("night")
    [row] = [line for line in report.stdout.splitlines() if job in line]
    assert "waiting" in row
    assert "Day [red]one" in row


def test_a_job_is_kept_deleted_and_swept_up_after(api: None, settings: Settings) -> None:
    def told(*arguments: object) -> Any:
        ran = CliRunner().invoke(
            app, [*map(str, arguments), "--json"], env=settings.to_environment()
        )
        return json.loads(ran.stdout or ran.stderr)

    with Client(settings.api_url, str(settings.api_key)) as client:
        recording = client.upload(SAMPLES / "sample.mp4", lambda _: None)
        holdings = json.loads((SAMPLES / "portfolio.json").read_text())
        asked = {"recording_id": recording["id"], "portfolio": holdings, "objective": "?"}
        job_id = client.submit(asked)["id"]
        client.cancel(job_id)
    kept = told("jobs", "keep", job_id, "--until", "2031-01-31T18:00:00Z")
    assert kept["keep_until"] == "2031-01-31T18:00:00Z"
    assert told("jobs", "keep", job_id)["keep_until"] is None
    assert told("jobs", "hold", job_id)["held_at"] is not None
    assert told("jobs", "delete", job_id)["problems"][0]["code"] == "held"
    assert told("jobs", "release", job_id)["held_at"] is None
    assert told("jobs", "delete", job_id) == {"id": job_id, "is_deleted": True}
    assert told("jobs", "delete", job_id)["problems"][0]["code"] == "job_unknown"
    nothing = {
        **{"jobs": 0, "recordings": 0, "uploads": 0, "blobs": 0, "frames": 0, "parts": 0},
        "freed_bytes": 0,
    }
    assert told("sweep", "--dry-run") == {"is_dry_run": True, **nothing}
    assert told("sweep") == {"is_dry_run": False, **nothing}


def test_a_recording_is_held_listed_and_released(api: None, settings: Settings) -> None:
    def said(*arguments: str, key: str | None = None) -> tuple[int, str]:
        environment = settings.to_environment() | {"COLUMNS": "200"}
        if key is not None:
            environment["OMNAI_API_KEY"] = key
        ran = CliRunner().invoke(app, ["recordings", *arguments], env=environment)
        return ran.exit_code, ran.stdout or ran.stderr

    with Client(settings.api_url, str(settings.api_key)) as client:
        recording = client.upload(SAMPLES / "sample.mp4", lambda _: None)["id"]
        holdings = json.loads((SAMPLES / "portfolio.json").read_text())
        asked = {"recording_id": recording, "portfolio": holdings, "objective": "?"}
        job_id = client.submit(asked)["id"]
        client.cancel(job_id)
    assert said("list", "--held", "--json") == (0, "[]\n")
    status, text = said("hold", recording)
    assert (status, text.startswith(f"{recording} has been under legal hold since 2")) == (0, True)
    environment = settings.to_environment()
    refused = CliRunner().invoke(app, ["jobs", "delete", job_id, "--json"], env=environment)
    assert json.loads(refused.stderr)["problems"][0]["code"] == "held"
    [held] = json.loads(said("list", "--held", "--json")[1])
    assert (held["id"], held["owner"], held["held_at"] is None) == (recording, "ada", False)
    for shown in (said("list"), said("list", "--held", "--limit", "1")):
        [row] = [line for line in shown[1].splitlines() if line.startswith(recording)]
        assert row.split()[-1] == "sample.mp4"
        assert row.count("20") >= 2  # both dates
    # Whoever is no admin sees nobody else's, and neither holds nor releases.
    made = CliRunner().invoke(app, ["keys", "create", "eve", "--json"], env=environment)
    key = json.loads(made.stdout)["secret"]
    assert said("list", "--json", key=key) == (0, "[]\n")
    for action in ("hold", "release"):
        status, text = said(action, recording, "--json", key=key)
        assert (status, json.loads(text)["problems"][0]["code"]) == (2, "role_refused")
        status, text = said(action, NOBODY, "--json")
        assert (status, json.loads(text)["problems"][0]["code"]) == (2, "recording_unknown")
    assert said("release", recording) == (0, f"{recording} is no longer under legal hold\n")
    assert said("list", "--held", "--json") == (0, "[]\n")


def test_a_brief_is_written_where_it_is_asked_for(api: None, run: Run, tmp_path: Path) -> None:
    job = submitted(run)
    ran = run("brief", job["id"], "--format", "html", "-o", tmp_path / "brief.html")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "brief.html").read_text().startswith("<!")
    assert run("brief", job["id"]).stdout.startswith("# ")


def test_a_finding_is_noted_searched_for_and_shown_in_every_form(
    api: None, run: Run, settings: Settings, tmp_path: Path
) -> None:
    assert settings.database_url is not None
    database = connect(settings.database_url)
    job_id = ended(database, "ada", "A chart falls.", "Orders of 1.9 billion.")
    database.dispose()
    noted = run("note", job_id, KEY, "--accept", "--text", "Page 12.", "--json")
    assert noted.returncode == 0, noted.stderr
    assert json.loads(noted.stdout)["action"] == "accept"
    listed = run("search", "chart", "--holding", "ACME", "--state", "accepted")
    assert job_id in listed.stdout
    assert "A chart falls." in listed.stdout
    assert "1.9 billion" not in listed.stdout
    (hit,) = json.loads(run("search", '"1.9 billion"', "--json").stdout)
    assert (hit["job_id"], hit["key"], hit["state"]) == (job_id, "1.1.0", "open")
    ran = run("brief", job_id, "--format", "pdf", "-o", tmp_path / "brief.pdf")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "brief.pdf").read_bytes().startswith(b"%PDF-")
    compared = run("brief", job_id, "--format", "json", "--against", job_id)
    assert [found["basis"] for found in json.loads(compared.stdout)["changes"]][-1:] == ["job"]
    for refused in (
        run("note", job_id, KEY, "--accept", "--done", "--json"),
        run("note", job_id, "9.9.9", "--done", "--json"),
        run("brief", job_id, "--format", "odt", "-o", tmp_path / "brief.odt"),
    ):
        assert refused.returncode == 2
    assert [found.name for found in tmp_path.iterdir()] == ["brief.pdf"]


def test_what_the_api_refuses_is_told_like_a_refusal_of_our_own(
    api: None, run: Run, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.mp4"
    notes.write_text("These are the minutes.\n" * 100)
    ran = run(
        *("submit", notes, "--portfolio", SAMPLES / "portfolio.csv"),
        *("--objective", "What matters?", "--json"),
    )
    assert ran.returncode == 2
    assert json.loads(ran.stderr)["problems"][0]["code"] == "not_media"
    assert run("jobs", "show", NOBODY).returncode == 2


def test_an_api_that_is_not_there_is_said_and_no_address_is_shown(run: Run) -> None:
    url = f"http://user:hunter2@127.0.0.1:{free_port()}"
    ran = run("jobs", "list", "--json", OMNAI_API_URL=url)
    assert ran.returncode == 1
    assert json.loads(ran.stderr)["error"] == "api_unreachable"
    assert "hunter2" not in ran.stderr


def test_without_a_key_the_client_says_how_to_make_one(run: Run, settings: Settings) -> None:
    variables = settings.to_environment()
    del variables["OMNAI_API_KEY"]
    ran = subprocess.run(
        [sys.executable, "-m", "omnai", "jobs", "list"],
        env={k: v for k, v in os.environ.items() if k != "OMNAI_API_KEY"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "omnai keys create" in ran.stderr


@pytest.mark.parametrize("where", ["in the middle", "before the last answer"])
def test_a_recording_is_sent_whole_over_a_connection_that_breaks(
    api: None, settings: Settings, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(sending, "PAUSES_S", (0.05,) * 100)
    breaks: list[str] = []

    def cut(way: str, carried: int, data: bytes) -> bool:
        if where == "in the middle":
            is_there = way == "up" and carried > 200_000
        else:
            is_there = way == "down" and b"Upload-Recording" in data
        if is_there and len(breaks) < 2:
            breaks.append(way)
            return True
        return False

    file, gone = SAMPLES / "sample.mp4", 0

    def count(more: int) -> None:
        nonlocal gone
        gone += more

    port = int(settings.bind.rpartition(":")[2])
    with (
        relay(port, cut) as broken,
        Client(f"http://127.0.0.1:{broken}", str(settings.api_key)) as client,
    ):
        recording = client.upload(file, count)
    assert breaks
    assert recording["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert recording["filename"] == "sample.mp4"
    assert gone == file.stat().st_size


def test_what_no_later_attempt_would_change_is_told_at_once(
    api: None, settings: Settings, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "notes.txt").write_text("no recording" * 100)
    ran = run(
        *("submit", tmp_path / "notes.txt", "--portfolio", SAMPLES / "portfolio.csv"),
        *("--objective", "What matters?", "--json"),
    )
    assert ran.returncode == 2
    (problem,) = json.loads(ran.stderr)["problems"]
    assert problem["where"] == ""
