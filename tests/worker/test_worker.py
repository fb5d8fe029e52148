"""A real worker: real database, real queue, processes that are really killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from omnai.services.valkey import Valkey
from pipeline.engine.registry import TEST_ENGINE_VARIABLE
from pipeline.ledger import dossiers, epochs, jobs, workers
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.ledger.workers import WorkerState
from pipeline.records import Dossier, JobState
from pipeline.settings import PhaseLimits
from tests.worker import staged
from tests.worker.conftest import Host, until
from worker.enqueue import ring
from worker.processes import is_gone

SAMPLE_S = 72
"""Length of the shipped sample (scripts/make_sample.py)."""

SLOW = {staged.UNIT_S: "0.2"}


def running(host: Host, *, units: int = 3) -> UnreleasedEpoch:
    """The running epoch, once the engine has answered so many units."""
    until(lambda: len(host.fed()) >= units)
    (epoch,) = epochs.unreleased(host.database)
    return epoch


def children(pid: int) -> dict[int, str]:
    """Processes that this one has started, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if parent == pid:
            found[int(entry.name)] = command
    return found


def loaded(host: Host) -> dict[str, int]:
    return {
        "loads": sum(entry["event"] == "load" for entry in host.diary()),
        "opens": sum(entry["event"] == "open" for entry in host.diary()),
    }


def ended(host: Host, job_id: str) -> Dossier:
    """The job's rows, with every stored unit held against the engine's own diary."""
    dossier = dossiers.load(host.database, job_id)
    for epoch in dossier.epochs:
        kept = [unit.sequence for unit in dossier.units if unit.epoch == epoch.number]
        assert kept == list(range(len(kept)))
    return dossier


def test_a_queued_job_runs_once_to_a_stored_brief_however_often_the_bell_rings(host: Host) -> None:
    host.start()
    job_id = host.submit()
    for _ in range(10):
        assert ring(host.settings)
    host.await_state(job_id, JobState.SUCCEEDED)

    assert host.brief(job_id)["provenance"]["job_id"] == job_id
    until(lambda: host.held() == 0)
    time.sleep(1)  # the other nine bells
    dossier = ended(host, job_id)
    assert [epoch.number for epoch in dossier.epochs] == [1]
    seconds = [unit.second for unit in dossier.units if unit.second is not None]
    assert seconds == list(range(SAMPLE_S))
    assert host.fed() == list(range(len(dossier.units)))
    assert loaded(host) == {"loads": 1, "opens": 1}


def test_a_dead_queue_refuses_the_bell_at_once_and_the_job_runs_once_it_is_back(
    make_host: Callable[..., Host], valkey: Valkey
) -> None:
    host = make_host(redis_url=valkey.url)
    host.start()
    until(lambda: loaded(host)["loads"] == 1)
    valkey.stop()
    job_id = host.submit(start_s=60)
    began = time.monotonic()
    assert not ring(host.settings)
    assert time.monotonic() - began < 4
    time.sleep(1)
    assert host.state(job_id) is JobState.QUEUED
    valkey.start()
    host.await_state(job_id, JobState.SUCCEEDED, within_s=90)
    assert loaded(host)["opens"] == 1
    # Celery has told of the lost connection, without the address that it usually gives.
    assert "onnect" in host.log()
    assert "://" not in host.log()


def test_a_silent_queue_does_not_hold_the_caller_up(
    make_host: Callable[..., Host], valkey: Valkey
) -> None:
    host = make_host(redis_url=valkey.url)
    assert ring(host.settings)
    pid = valkey.server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert not ring(host.settings)
        assert time.monotonic() - began < 6
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_killed_process_fails_its_job_in_part_and_the_next_job_runs(host: Host) -> None:
    host.start(**SLOW)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    epoch = running(host)
    # The decoder runs under the spawned pool process, where CUDA will live.
    assert any("pipeline.media" in command for command in children(epoch.pid).values())
    os.kill(epoch.pid, signal.SIGKILL)

    host.await_state(first, JobState.FAILED, within_s=20)
    dossier = ended(host, first)
    assert [one.end_reason for one in dossier.epochs] == ["worker_lost"]
    assert 0 < len(dossier.units) < SAMPLE_S
    assert host.brief(first)["status"]["kind"] == "partial"
    until(lambda: host.state(second) is JobState.RUNNING)
    until(lambda: loaded(host) == {"loads": 2, "opens": 2})
    (next_epoch,) = epochs.unreleased(host.database)
    assert next_epoch.pid != epoch.pid
    assert host.state(first) is JobState.FAILED
    assert not children(epoch.pid)


def test_sigterm_ends_after_the_unit_in_flight_and_leaves_the_queue_alone(host: Host) -> None:
    supervisor = host.start(**SLOW)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    running(host)
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=30) == 0
    assert time.monotonic() - began < 10

    dossier = ended(host, first)
    assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.FAILED, "worker_shutdown")
    # The diary has what the engine answered: all of it is stored, the last answer too.
    assert [unit.sequence for unit in dossier.units] == host.fed()
    assert [entry["event"] for entry in host.diary()].count("feed") == len(host.fed())
    assert host.held() == 0
    assert (host.state(second), host.waiting()) == (JobState.QUEUED, 1)
    assert loaded(host)["opens"] == 1
    assert host.pids() == []
    (worker,) = workers.listed(host.database)
    assert worker.state is WorkerState.GONE


def test_a_worker_whose_supervisor_is_killed_leaves_by_itself(host: Host) -> None:
    supervisor = host.start(**SLOW)
    job_id = host.submit()
    ring(host.settings)
    running(host)
    supervisor.kill()
    host.await_state(job_id, JobState.FAILED)
    assert ended(host, job_id).epochs[0].end_reason == "worker_shutdown"
    until(lambda: host.pids() == [])


def test_a_killed_celery_worker_takes_its_process_with_it_and_is_replaced(host: Host) -> None:
    supervisor = host.start(**SLOW)
    job_id = host.submit()
    ring(host.settings)
    epoch = running(host)
    (celery,) = children(supervisor.pid)
    os.kill(celery, signal.SIGKILL)
    until(lambda: is_gone(epoch.pid), within_s=10)
    host.await_state(job_id, JobState.FAILED)
    assert ended(host, job_id).epochs[0].end_reason == "worker_lost"
    until(lambda: loaded(host)["loads"] == 2)
    assert host.held() == 0
    assert loaded(host)["opens"] == 1


def test_a_cancel_in_the_database_ends_the_run_within_one_unit(host: Host) -> None:
    host.start(**SLOW)
    job_id = host.submit()
    ring(host.settings)
    running(host)
    fed = len(host.fed())
    assert jobs.request_cancel(host.database, job_id) is JobState.CANCELING
    host.await_state(job_id, JobState.CANCELED, within_s=5)
    assert len(host.fed()) <= fed + 2
    assert len(ended(host, job_id).units) >= fed
    assert host.brief(job_id)


def test_a_stalled_unit_is_committed_as_a_timeout_before_its_process_is_killed(
    make_host: Callable[..., Host],
) -> None:
    host = make_host(phase_limits=PhaseLimits(unit=3.0))
    host.start(**{staged.STALL_AT: "4"})
    first = host.submit()
    ring(host.settings)
    epoch = running(host, units=4)

    def given_up() -> bool:
        # Read in this order: whoever is gone when the row is still open was killed too early.
        is_dead = is_gone(epoch.pid)
        state = host.state(first)
        assert not (is_dead and state is JobState.RUNNING)
        return is_dead and state is JobState.FAILED

    until(given_up, within_s=30)
    dossier = ended(host, first)
    assert dossier.epochs[0].end_reason == "unit_timeout"
    assert "3 s" in str(dossier.epochs[0].end_detail)
    assert [unit.sequence for unit in dossier.units] == [0, 1, 2, 3]
    assert host.brief(first)
    until(lambda: host.held() == 0)
    until(lambda: loaded(host)["loads"] == 2)
    time.sleep(1)
    assert loaded(host)["opens"] == 1


def test_a_second_supervisor_of_the_same_slot_refuses_and_changes_nothing(host: Host) -> None:
    host.start(**SLOW)
    job_id = host.submit()
    ring(host.settings)
    epoch = running(host)
    second = host.start(**SLOW)
    assert second.wait(timeout=30) == 2
    assert "slot_taken" in host.log()
    assert host.state(job_id) is JobState.RUNNING
    assert not is_gone(epoch.pid)


def test_a_worker_takes_only_jobs_that_asked_for_its_engine(host: Host) -> None:
    host.start()
    other, own = host.submit(engine="rehearsal"), host.submit(start_s=60)
    ring(host.settings)
    ring(host.settings)
    host.await_state(own, JobState.SUCCEEDED)
    time.sleep(1)
    assert host.state(other) is JobState.QUEUED


def test_an_engine_that_does_not_load_claims_nothing(host: Host) -> None:
    host.environment[TEST_ENGINE_VARIABLE] = "tests.worker.staged:missing"
    host.start()
    job_id = host.submit()
    ring(host.settings)
    until(lambda: "The Celery worker ended; another is started." in host.log())
    assert "The worker cannot begin" in host.log()
    assert host.state(job_id) is JobState.QUEUED
    assert host.held() == 0
