"""What users and admins ask for while something fails: an API and a worker as real processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from pipeline.records import JobState
from pipeline.settings import PhaseLimits
from tests.faults.host import Host
from tests.faults.servers import Servers
from tests.faults.serving import Api, serving, signed_in, sound
from tests.hosts import until
from tests.pipeline.ledger.factories import rows
from tests.processes import needs_proc
from tests.service import await_ready
from worker.enqueue import ring

pytestmark = needs_proc

DECLARED_S, HELD_S = 10, 4
"""How long a file says that it is, and how long it is."""


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
    check_rerun(host, api, job_id, start="start", failed="engine_error", left=[0, 1, 2])


def test_a_start_that_is_not_in_the_recording_fails_and_another_is_run_again_once(
    host: Host, api: Api
) -> None:
    """The file says that it is longer than it is, and nobody has looked before the epoch does."""
    whole = sound(DECLARED_S)
    recording = host.take_in(whole[: len(sound(HELD_S))], filename="call.wav")
    job_id = api.submit(recording.id, start_s=HELD_S + 1).json()["id"]
    host.await_state(job_id, JobState.FAILED)
    [epoch] = api.epochs(job_id)["epochs"]
    assert epoch["start_s"] == HELD_S + 1
    assert "the source ends at 4.000 s" in epoch["end_detail"]
    assert host.events("entry", job_id) == []
    for start in ("start", "last_completed", HELD_S + 1):
        refused = api.rerun(job_id, start)
        assert (refused.status_code, refused.json()["code"]) == (409, "at_source_end")
    check_rerun(host, api, job_id, start=1, failed="decode_error", left=[])
    seconds = [unit.second for unit in host.dossier(job_id).units]
    assert [second for second in seconds if second is not None] == [1, 2, 3]


def check_rerun(
    host: Host, api: Api, job_id: str, *, start: str | int, failed: str, left: list[int]
) -> None:
    """Two admins ask for it at once; what the first epoch has left stays as it was."""
    until(lambda: stored(host, job_id))
    first = api.brief(job_id)
    assert [epoch["units"] for epoch in first["provenance"]["epochs"]] == [len(left)]
    kept = stored(host, job_id)
    [before] = api.epochs(job_id)["epochs"]
    host.plan(is_held=True)
    answers: list[httpx.Response] = []
    with signed_in(host, api, "bob") as other:
        clicks = [
            threading.Thread(target=lambda who=who: answers.append(who.rerun(job_id, start)))
            for who in (api, other)
        ]
        for click in clicks:
            click.start()
        for click in clicks:
            click.join()
    accepted, refused = sorted(answers, key=lambda answer: answer.status_code)
    assert (accepted.status_code, accepted.json()["epoch"]) == (202, before["number"] + 1)
    assert (refused.status_code, refused.json()["code"]) == (409, "job_not_ended")
    assert len(api.epochs(job_id)["reruns"]) == 1
    host.plan()
    host.await_state(job_id, JobState.SUCCEEDED)
    assert host.reasons(job_id) == [failed, "completed"]
    assert api.epochs(job_id)["epochs"][0] == before
    units = host.dossier(job_id).units
    assert [unit.second for unit in units if unit.epoch == before["number"]] == left
    until(lambda: len(stored(host, job_id)) > len(kept))
    epochs = api.brief(job_id)["provenance"]["epochs"]
    assert [epoch["number"] for epoch in epochs] == [before["number"], before["number"] + 1]
    # How much of it no later epoch has done again is all that may change.
    assert epochs[0] == first["provenance"]["epochs"][0] | {"units_kept": epochs[0]["units_kept"]}
    assert stored(host, job_id)[: len(kept)] == kept


def stored(host: Host, job_id: str) -> list[bytes]:
    """Each brief of the job that was ever written, oldest first."""
    briefs = "SELECT document FROM briefs WHERE job_id = :id ORDER BY revision"
    return [bytes(document) for (document,) in rows(host.database, briefs, id=job_id)]


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
