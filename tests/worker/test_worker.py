"""One real worker through all that must not end it: real database, real queue, real kills."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
import redis

from pipeline.ledger import epochs, jobs
from pipeline.ledger.blobs import FolderBlobs
from pipeline.records import JobState
from pipeline.settings import PhaseLimits
from tests.hosts import until
from tests.processes import needs_proc
from tests.worker.conftest import SAMPLE_SHA256, Host, check, children, opened_host
from worker import station
from worker.app import queue_name
from worker.enqueue import ring
from worker.processes import is_gone

pytestmark = needs_proc

SAMPLE_S = 72
"""Length of the shipped sample (scripts/make_sample.py)."""

LATE_S = 60
"""Where a run begins of which only the end matters."""

UNIT_LIMIT_S = 4.0


@pytest.fixture(scope="module")
def started(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    with opened_host(
        tmp_path_factory.mktemp("host"),
        database_url=module_database_url,
        redis_url=valkey_url,
        phase_limits=PhaseLimits(unit=UNIT_LIMIT_S),
    ) as host:
        host.start()
        until(lambda: host.loaded()["loads"] == 1, within_s=90)
        yield host


@pytest.fixture
def host(started: Host) -> Iterator[Host]:
    """The started worker with nothing to do; its engine's diary begins with the test."""
    assert started.processes[0].poll() is None, started.log()
    started.pace()
    started.turn_page()
    yield started
    started.pace()
    started.cancel_all()
    until(lambda: started.held() == 0)


def await_silence(host: Host) -> None:
    """Until every bell has been answered, so that whatever it would start has been started."""
    assert host.settings.redis_url is not None
    with redis.Redis.from_url(host.settings.redis_url) as client:
        until(lambda: client.llen(queue_name(host.settings.engine)) == 0)
    time.sleep(0.3)


def test_a_queued_job_runs_once_to_a_stored_brief_however_often_the_bell_rings(host: Host) -> None:
    job_id = host.submit(start_s=LATE_S)
    for _ in range(10):
        assert ring(host.settings)
    host.await_state(job_id, JobState.SUCCEEDED)

    assert host.brief(job_id)["provenance"]["job_id"] == job_id
    until(lambda: host.held() == 0)
    await_silence(host)
    dossier = host.ended(job_id)
    assert [epoch.number for epoch in dossier.epochs] == [1]
    seconds = [unit.second for unit in dossier.units if unit.second is not None]
    assert seconds == list(range(LATE_S, SAMPLE_S))
    assert host.fed() == list(range(len(dossier.units)))
    assert host.loaded() == {"loads": 0, "opens": 1}


def test_a_worker_takes_only_jobs_that_asked_for_its_engine(host: Host) -> None:
    other, own = host.submit(engine="rehearsal"), host.submit(start_s=LATE_S)
    ring(host.settings)
    ring(host.settings)
    host.await_state(own, JobState.SUCCEEDED)
    await_silence(host)
    assert host.state(other) is JobState.QUEUED


def test_a_cancel_in_the_database_ends_the_run_within_one_unit(host: Host) -> None:
    host.pace(unit_s=0.2)
    job_id = host.submit()
    ring(host.settings)
    host.running()
    fed = len(host.fed())
    assert jobs.request_cancel(host.database, job_id) is JobState.CANCELING
    host.await_state(job_id, JobState.CANCELED, within_s=5)
    assert len(host.fed()) <= fed + 2
    assert len(host.ended(job_id).units) >= fed
    assert host.brief(job_id)


def test_a_second_supervisor_of_the_same_slot_refuses_and_changes_nothing(host: Host) -> None:
    host.pace(unit_s=0.2)
    job_id = host.submit()
    ring(host.settings)
    epoch = host.running()
    second = host.start()
    assert second.wait(timeout=60) == 2
    assert "slot_taken" in host.log()
    assert host.state(job_id) is JobState.RUNNING
    assert not is_gone(epoch.pid)


def test_a_killed_process_fails_its_job_in_part_and_the_next_job_runs(host: Host) -> None:
    host.pace(unit_s=0.2)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    epoch = host.running()
    # The decoder runs under the spawned pool process, where CUDA will live.
    assert any("pipeline.media" in command for command in children(epoch.pid).values())
    os.kill(epoch.pid, signal.SIGKILL)

    host.await_state(first, JobState.FAILED, within_s=20)
    dossier = host.ended(first)
    assert [one.end_reason for one in dossier.epochs] == ["worker_lost"]
    assert 0 < len(dossier.units) < SAMPLE_S
    assert host.brief(first)["status"]["kind"] == "partial"
    until(lambda: host.state(second) is JobState.RUNNING)
    until(lambda: host.loaded() == {"loads": 1, "opens": 2})
    (next_epoch,) = epochs.unreleased(host.database)
    assert next_epoch.pid != epoch.pid
    assert host.state(first) is JobState.FAILED
    assert not children(epoch.pid)


def test_a_stalled_unit_is_committed_as_a_timeout_before_its_process_is_killed(
    host: Host,
) -> None:
    host.pace(stall_at=4)
    first = host.submit()
    ring(host.settings)
    epoch = host.running(units=4)

    def given_up() -> bool:
        # Read in this order: whoever is gone when the row is still open was killed too early.
        is_dead = is_gone(epoch.pid)
        state = host.state(first)
        assert not (is_dead and state is JobState.RUNNING)
        return is_dead and state is JobState.FAILED

    until(given_up, within_s=30)
    dossier = host.ended(first)
    assert dossier.epochs[0].end_reason == "unit_timeout"
    assert f"{UNIT_LIMIT_S:g} s" in str(dossier.epochs[0].end_detail)
    assert [unit.sequence for unit in dossier.units] == [0, 1, 2, 3]
    assert host.brief(first)
    until(lambda: host.held() == 0)
    until(lambda: host.loaded()["loads"] == 1)
    await_silence(host)
    assert host.loaded()["opens"] == 1


def test_a_killed_celery_worker_takes_its_process_with_it_and_is_replaced(host: Host) -> None:
    host.pace(unit_s=0.2)
    job_id = host.submit()
    ring(host.settings)
    epoch = host.running()
    (celery,) = children(host.processes[0].pid)
    os.kill(celery, signal.SIGKILL)
    until(lambda: is_gone(epoch.pid), within_s=10)
    host.await_state(job_id, JobState.FAILED)
    assert host.ended(job_id).epochs[0].end_reason == "worker_lost"
    until(lambda: host.loaded()["loads"] == 1)
    assert host.held() == 0
    assert host.loaded()["opens"] == 1


def test_a_recording_whose_bytes_are_gone_fails_its_job_with_a_reason_and_the_next_one_runs(
    host: Host,
) -> None:
    first = host.submit(start_s=LATE_S)
    FolderBlobs(host.settings.data_dir / "blobs").path(SAMPLE_SHA256).unlink()
    ring(host.settings)
    host.await_state(first, JobState.FAILED)
    (epoch,) = host.ended(first).epochs
    assert epoch.end_reason == "decode_error"
    assert epoch.end_detail == station.MISSING_DETAIL
    assert host.brief(first)
    second = host.submit(start_s=LATE_S)
    ring(host.settings)
    host.await_state(second, JobState.SUCCEEDED)
    assert host.loaded()["loads"] == 0


def test_the_check_tells_a_slot_whose_worker_runs_from_one_without(host: Host) -> None:
    assert check(host.settings) == (0, "host/0: running\n")
    assert check(host.settings, OMNAI_SLOT="1") == (1, "host/1: no supervisor and no engine\n")
