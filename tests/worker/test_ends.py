"""A real worker that is told to go, that loses its queue, or that cannot begin."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from omnai.services.valkey import Valkey
from pipeline.engine.registry import TEST_ENGINE_VARIABLE
from pipeline.ledger import briefs, workers
from pipeline.ledger.workers import WorkerState
from pipeline.records import JobState
from tests.processes import needs_proc
from tests.worker.conftest import Host, check, until
from worker import pool
from worker.enqueue import ring

pytestmark = needs_proc


def test_a_dead_queue_refuses_the_bell_at_once_and_the_job_runs_once_it_is_back(
    make_host: Callable[..., Host], valkey: Valkey
) -> None:
    host = make_host(redis_url=valkey.url)
    host.start()
    until(lambda: host.loaded()["loads"] == 1)
    valkey.stop()
    job_id = host.submit(start_s=60)
    began = time.monotonic()
    assert not ring(host.settings)
    assert time.monotonic() - began < 4
    assert host.state(job_id) is JobState.QUEUED
    valkey.start()
    host.await_state(job_id, JobState.SUCCEEDED, within_s=90)
    assert host.loaded()["opens"] == 1
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


@pytest.mark.parametrize("variables", [{}, {pool.TEST_VARIABLE: "1"}], ids=["prefork", "solo"])
def test_sigterm_ends_after_the_unit_in_flight_and_leaves_the_queue_alone(
    host: Host, variables: dict[str, str]
) -> None:
    host.pace(unit_s=0.2)
    host.environment |= variables
    supervisor = host.start()
    first, second = host.submit(), host.submit()
    ring(host.settings)
    host.running()
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=30) == 0
    assert time.monotonic() - began < 10
    brief = briefs.latest(host.database, first)
    assert brief is not None
    assert brief.status == "partial"
    assert check(host.settings) == (1, "host/0: no supervisor and no engine\n")

    dossier = host.ended(first)
    assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.FAILED, "worker_shutdown")
    # The diary has what the engine answered: all of it is stored, the last answer too.
    assert [unit.sequence for unit in dossier.units] == host.fed()
    assert [entry["event"] for entry in host.diary()].count("feed") == len(host.fed())
    assert host.held() == 0
    assert (host.state(second), host.waiting()) == (JobState.QUEUED, 1)
    assert host.loaded()["opens"] == 1
    assert host.pids() == []
    (worker,) = workers.listed(host.database)
    assert worker.state is WorkerState.GONE


def test_an_engine_that_cannot_be_reset_is_replaced_with_its_process(host: Host) -> None:
    host.pace(break_at=3)
    host.start()
    first = host.submit()
    ring(host.settings)
    host.await_state(first, JobState.FAILED)
    assert host.ended(first).epochs[0].end_reason == "engine_error"
    host.pace()
    second = host.submit(start_s=60)
    host.await_state(second, JobState.SUCCEEDED, within_s=90)
    assert host.loaded() == {"loads": 2, "opens": 2}
    assert host.held() == 0


def test_a_worker_whose_supervisor_is_killed_leaves_by_itself(host: Host) -> None:
    host.pace(unit_s=0.2)
    supervisor = host.start()
    job_id = host.submit()
    ring(host.settings)
    host.running()
    supervisor.kill()
    host.await_state(job_id, JobState.FAILED)
    assert host.ended(job_id).epochs[0].end_reason == "worker_shutdown"
    until(lambda: host.pids() == [])


def test_an_engine_that_does_not_load_claims_nothing(host: Host) -> None:
    host.environment[TEST_ENGINE_VARIABLE] = "tests.worker.staged:missing"
    host.start()
    job_id = host.submit()
    ring(host.settings)
    until(lambda: "The Celery worker ended; another is started." in host.log())
    assert "The worker cannot begin" in host.log()
    assert host.state(job_id) is JobState.QUEUED
    assert host.held() == 0
