"""What users and admins ask for while something fails: an API and a worker as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnai.processes import api_command
from pipeline.ledger import keys
from pipeline.ledger.keys import Role
from pipeline.records import JobState
from pipeline.settings import PhaseLimits, Settings
from tests.faults import clock
from tests.faults.host import Host, opened_host, site
from tests.faults.servers import Servers
from tests.hosts import OWNER, ROOT, until
from tests.processes import needs_proc
from tests.service import await_ready, free_port
from worker.enqueue import ring

pytestmark = needs_proc

HOLDINGS = [
    {
        "id": "H1",
        "name": "Alpha Corp",
        "ticker": "ALP",
        "asset_type": "equity",
        "currency": "USD",
        "weight_pct": "100",
    }
]

WRONG_S = 2 * 3600
"""By how much a clock is off; every limit in the product is shorter."""


@dataclass
class Api:
    http: httpx.Client
    """Of an admin, who owns the recordings too."""
    process: subprocess.Popen[bytes]

    def ask(self, host: Host, *, count: int = 6, key: str | None = None) -> httpx.Response:
        return self.http.post(
            "/v1/jobs",
            json={
                "recording_id": host.upload(count).id,
                "portfolio": HOLDINGS,
                "objective": "Look.",
                "engine": "test",
            },
            headers={} if key is None else {"Idempotency-Key": key},
        )

    def cancel(self, job_id: str) -> httpx.Response:
        return self.http.post(f"/v1/jobs/{job_id}/cancel")

    def rerun(self, job_id: str) -> httpx.Response:
        return self.http.post(
            f"/v1/jobs/{job_id}/epochs", json={"from": "start", "reason": "It had failed."}
        )

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/v1/jobs/{job_id}").raise_for_status().json()
        return found


@contextmanager
def serving(host: Host, **variables: str) -> Iterator[Api]:
    settings: Settings = replace(host.settings, bind=f"127.0.0.1:{free_port()}")
    _, secret = keys.create(host.database, owner=OWNER, role=Role.ADMIN, label="", expires_at=None)
    command = [
        "tests.faults.api:app" if part == "api.wsgi:app" else part
        for part in api_command(settings, graceful_s=1)
    ]
    settings.data_dir.mkdir(exist_ok=True)
    with (host.folder / "api.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | settings.to_environment() | host.environment | variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    url, headers = f"http://{settings.bind}", {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as http:
        try:
            await_ready(http)
            yield Api(http, process)
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture(scope="module")
def module_api(module_host: Host) -> Iterator[Api]:
    with serving(module_host) as api:
        yield api


@pytest.fixture
def api(module_api: Api, host: Host) -> Api:
    return module_api


@pytest.mark.parametrize("fault", ["stopped", "silent"])
def test_a_job_is_taken_while_the_queue_is_away_and_runs_once_it_is_back(
    host: Host, api: Api, servers: Servers, fault: str
) -> None:
    pid = servers.valkey.server.pid()
    assert pid is not None
    if fault == "silent":
        os.kill(pid, signal.SIGSTOP)
    else:
        servers.end_valkey()
    try:
        began = time.monotonic()
        answer = api.ask(host)
        assert answer.status_code == 202, answer.text
        assert time.monotonic() - began < 6
        assert answer.json()["state"] == "queued"
    finally:
        os.kill(pid, signal.SIGCONT) if fault == "silent" else servers.valkey.start()
    host.await_state(answer.json()["id"], JobState.SUCCEEDED)


def test_a_job_whose_bell_died_with_the_api_runs_and_is_found_by_its_key(host: Host) -> None:
    before = host.measure().states.total()
    with serving(host) as first:
        host.plan(at="after_api_commit", do="kill")
        with pytest.raises(httpx.TransportError):
            first.ask(host, key="once")
        host.await_fault()
        # A rung bell would begin it at once; this is the dispatcher's.
        (job_id,) = [entry["job"] for entry in until(lambda: host.events("claim"))]
        host.await_state(job_id, JobState.SUCCEEDED)
        await_ready(first.http)  # gunicorn has replaced its process
        again = first.ask(host, key="once")
        assert (again.status_code, again.json()["id"]) == (202, job_id)
        assert host.measure().states.total() == before + 1


def test_a_cancel_ends_what_it_finds_and_says_so(host: Host, api: Api, tmp_path: Path) -> None:
    host.plan(is_held=True)
    queued = api.ask(host).json()["id"]  # its bell is with the worker already
    assert api.cancel(queued).json()["state"] == "canceled"
    host.plan(unit_s=0.1)
    running = api.ask(host, count=60).json()["id"]
    host.await_entries(running, 3)
    answer = api.cancel(running)
    calls = len(host.events("entry", running))
    assert (answer.status_code, answer.json()["state"]) == (202, "canceling")
    host.await_state(running, JobState.CANCELED, within_s=10)
    assert len(host.events("entry", running)) <= calls + 2
    assert len(host.units(running)) >= calls - 1

    gate = tmp_path / "gate"
    ends = {}
    for at in ("before_finish", "after_finish"):
        gate.touch()
        host.plan(at=at, do="wait", while_there=str(gate))
        host.turn_page()
        job_id = api.ask(host).json()["id"]
        host.await_fault()
        ends[at] = api.cancel(job_id)
        gate.unlink()
        host.await_state(job_id, JobState.CANCELED, JobState.SUCCEEDED)
        assert host.state(job_id).value == (
            "canceled" if ends[at].status_code == 202 else "succeeded"
        )
    assert ends["before_finish"].status_code == 202
    assert ends["after_finish"].status_code == 409
    for ended in (queued, running, job_id):
        before = api.job(ended)
        refused = api.cancel(ended)
        assert (refused.status_code, refused.json()["code"]) == (409, "job_ended")
        assert api.job(ended) == before
    assert host.events("entry", queued) == []


def test_two_admins_at_once_begin_one_rerun_and_the_first_epoch_stays(host: Host, api: Api) -> None:
    host.plan(at="in_unit", do="run out of device memory", sequence=3)
    job_id = api.ask(host).json()["id"]
    host.await_state(job_id, JobState.FAILED)
    first = until(lambda: api.http.get(f"/v1/jobs/{job_id}/brief.json").content)
    kept = host.brief(job_id)
    host.plan(is_held=True)
    answers: list[httpx.Response] = []
    clicks = [threading.Thread(target=lambda: answers.append(api.rerun(job_id))) for _ in range(2)]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    assert sorted(answer.status_code for answer in answers) == [202, 409]
    host.plan()
    host.await_state(job_id, JobState.SUCCEEDED)
    assert host.reasons(job_id) == ["engine_error", "completed"]
    epochs = [epoch.number for epoch in host.dossier(job_id).epochs]
    left = [unit.second for unit in host.dossier(job_id).units if unit.epoch == epochs[0]]
    assert left == [0, 1, 2]
    assert first
    until(lambda: len(host.brief(job_id)["provenance"]["epochs"]) == 2)
    assert [epoch["units"] for epoch in kept["provenance"]["epochs"]] == [3]


def test_a_cancel_while_no_worker_is_there_holds_when_one_comes(
    make_host: Callable[..., Host],
) -> None:
    host = make_host(phase_limits=PhaseLimits(unit=60.0))
    host.start()
    host.await_loaded()
    host.plan(at="in_unit", do="hang", sequence=2)
    running, queued = host.submit(), host.submit()
    ring(host.settings)
    host.await_fault()
    host.kill_all()
    with serving(host) as api:
        assert api.cancel(running).json()["state"] == "canceling"
        assert api.cancel(queued).json()["state"] == "canceled"
        host.start()
        host.await_state(running, JobState.CANCELED)
        assert host.reasons(running) == ["worker_lost"]
        assert (host.units(running), host.units(queued)) == ([0, 1], [])
        assert host.events("claim", queued) == []
        assert api.cancel(running).status_code == 409
    host.check()


def test_clocks_that_are_wrong_and_step_end_and_repeat_nothing(
    database_url: str, valkey_url: str, tmp_path: Path
) -> None:
    clocks = {name: tmp_path / f"{name}.clock" for name in ("worker", "api")}
    clocks["worker"].write_text(str(WRONG_S))
    clocks["api"].write_text(str(-WRONG_S))

    def of(name: str) -> dict[str, str]:
        return {**site(), clock.CLOCK: str(clocks[name])}

    with opened_host(tmp_path / "host", database_url=database_url, redis_url=valkey_url) as host:
        host.start(**of("worker"))
        host.await_loaded()
        with serving(host, **of("api")) as api:
            began = datetime.now(timezone.utc)
            host.plan(unit_s=0.15)
            job_id = api.ask(host, count=20).json()["id"]
            for step_s in (-WRONG_S, WRONG_S, 0):
                seen = len(host.events("entry", job_id))
                until(lambda seen=seen: len(host.events("entry", job_id)) > seen + 3)  # type: ignore[misc]
                clocks["worker"].write_text(str(step_s))
                clocks["api"].write_text(str(-step_s))
            host.await_state(job_id, JobState.SUCCEEDED)
            shown = api.job(job_id)
        assert host.reasons(job_id) == ["completed"]
        assert len(host.events("claim")) == 1
        times = [
            datetime.fromisoformat(value.replace("Z", "+00:00"))
            for name, value in flat(shown)
            if name.endswith("_at") and value is not None
        ]
        assert len(times) >= 2
        for moment in times:
            assert began - timedelta(minutes=1) < moment < began + timedelta(minutes=30)
        host.check()


def flat(found: Any) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from flat(value)
        else:
            yield name, value
