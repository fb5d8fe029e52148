"""A real worker that is told to go, that loses its queue, or that cannot begin."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import celery  # type: ignore[import-untyped]
import pytest
import redis
from typer.testing import CliRunner

from omnai.cli import app
from omnai.services.valkey import Valkey
from pipeline.engine.registry import TEST_ENGINE_VARIABLE
from pipeline.ledger import briefs, workers
from pipeline.ledger.workers import WorkerState
from pipeline.records import JobState
from pipeline.settings import PhaseLimits
from tests.hosts import ROOT, until
from tests.processes import needs_proc
from tests.worker import staged
from tests.worker.conftest import Host, check, children, opened_host
from worker import pool, reaper, slot
from worker.app import queue_name
from worker.enqueue import ring, ring_for
from worker.startup import REFUSED

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


def test_a_connection_that_broke_inside_the_library_refuses_the_bell_and_is_not_kept(
    make_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    broken: list[object] = []

    def send_task(self: object, *args: object, **named: object) -> None:
        broken.append(self)
        raise AttributeError("'NoneType' object has no attribute 'client'")

    with monkeypatch.context() as patched:
        patched.setattr(celery.Celery, "send_task", send_task)
        assert not ring(host.settings)
        assert not ring(host.settings)
    assert ring(host.settings)
    assert len({id(app) for app in broken}) == 2


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


@pytest.mark.parametrize(
    ("variables", "signals", "is_decoder_stuck"),
    [
        ({}, [signal.SIGTERM, signal.SIGTERM], False),
        ({pool.TEST_VARIABLE: "1"}, [signal.SIGQUIT], False),
        ({}, [signal.SIGQUIT], True),
    ],
    ids=["twice", "solo-quit", "quit-while-the-decoder-hangs"],
)
def test_who_is_told_to_go_ends_after_the_unit_in_flight_and_leaves_the_rest_to_others(
    host: Host,
    variables: dict[str, str],
    signals: list[signal.Signals],
    is_decoder_stuck: bool,
) -> None:
    host.pace(unit_s=0.2)
    scratch = host.folder / "scratch"
    scratch.mkdir()
    host.environment |= variables | {"TMPDIR": str(scratch)}
    supervisor = host.start()
    first, second = host.submit(), host.submit()
    ring(host.settings)
    epoch = host.running()
    (celery,) = children(supervisor.pid)
    if is_decoder_stuck:
        media = next(pid for pid, of in children(epoch.pid).items() if "pipeline.media" in of)
        os.kill(media, signal.SIGSTOP)
        await_standstill(host)
    began = time.monotonic()
    for number in signals:
        # Nobody's own answer to it may be another: Celery's breaks into the second in progress.
        for pid in {supervisor.pid, celery, epoch.pid}:
            os.kill(pid, number)
        time.sleep(0.05)
    assert supervisor.wait(timeout=30) == 0
    # 0.2 s of a unit and a few tenths for the rest, were there nobody else on the machine.
    assert time.monotonic() - began < 10
    assert check(host.settings) == (1, "host/0: no supervisor and no engine\n")
    assert host.pids() == []
    assert list(scratch.iterdir()) == []

    dossier = host.ended(first)
    assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.FAILED, "worker_shutdown")
    # The diary has what the engine answered: all of it is stored, the last answer too.
    assert [unit.sequence for unit in dossier.units] == host.fed()
    events = [entry["event"] for entry in host.diary()]
    assert events.count("feed") == len(host.fed())
    assert host.held() == 0
    assert (host.state(second), host.waiting()) == (JobState.QUEUED, 1)
    assert host.loaded()["opens"] == 1
    (worker,) = workers.listed(host.database)
    assert worker.state is WorkerState.GONE
    assert "Traceback" not in host.log()

    # Nothing was rendered on the way out; whoever looks after the database next does it.
    assert briefs.latest(host.database, first) is None
    reaper.Publisher(host.database, after_s=0).publish_missing()
    brief = briefs.latest(host.database, first)
    assert brief is not None
    assert brief.status == "partial"


LAST_WORD = """
from celery.concurrency.prefork import process_destructor
import worker.tasks
process_destructor(1, 7)
print("still here")
"""


def test_a_pool_process_ends_with_the_last_word_that_celery_tells_it() -> None:
    """Billiard would go on, and sleep for a second."""
    ended = subprocess.run(
        [sys.executable, "-c", LAST_WORD], cwd=ROOT, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (7, b""), ended.stderr


def test_the_command_ends_without_a_look_at_all_that_was_loaded(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.supervisor.run", lambda settings: 3)
    before = gc.get_freeze_count()
    try:
        ended = CliRunner().invoke(app, ["worker"], env=host.settings.to_environment())
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
    assert ended.exit_code == 3


def await_standstill(host: Host) -> None:
    """Until the engine has had all that the decoder had sent."""

    def stands() -> bool:
        before = len(host.diary())
        time.sleep(1.0)
        return len(host.diary()) == before

    until(stands)


def test_a_render_that_hangs_is_judged_by_its_own_limit_and_the_brief_is_made_elsewhere(
    make_host: Callable[..., Host],
) -> None:
    host = make_host(phase_limits=PhaseLimits(unit=30.0, publish=6.0))
    host.pace(publish_s=600)
    host.start()
    first = host.submit(start_s=66)
    ring(host.settings)
    host.await_state(first, JobState.SUCCEEDED)
    until(lambda: "publish" in [entry["event"] for entry in host.diary()], within_s=120)
    host.pace()
    until(lambda: host.held() == 0, within_s=120)
    assert host.brief(first)["status"]["kind"] == "complete"
    (epoch,) = host.ended(first).epochs
    assert (host.state(first), epoch.end_reason) == (JobState.SUCCEEDED, "completed")

    # One that is being made when the worker is told to go is left to others too.
    host.end()
    host.settings = replace(host.settings, phase_limits=PhaseLimits())
    host.turn_page()
    host.pace(publish_s=600)
    second = host.submit(start_s=66)
    supervisor = host.start()
    until(lambda: "publish" in [entry["event"] for entry in host.diary()], within_s=120)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=30) == 0
    assert (host.state(second), host.held()) == (JobState.SUCCEEDED, 0)
    assert briefs.latest(host.database, second) is None


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
    until(lambda: host.held() == 0)


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


def test_an_engine_that_had_loaded_is_tried_again_but_not_for_ever(host: Host) -> None:
    host.environment[TEST_ENGINE_VARIABLE] = staged.REFUSING
    supervisor = host.start()
    for loads in (1, 2):
        until(lambda: host.loaded()["loads"] == loads)  # noqa: B023
        # The process is replaced by one that refuses; the next one loads, or refuses too.
        host.pace(refusals=1 if loads == 1 else 2 + staged.RELOADS_MAX)
        (celery,) = children(supervisor.pid)
        os.kill(celery, signal.SIGKILL)
    assert supervisor.wait(timeout=90) == REFUSED
    events = [entry["event"] for entry in host.diary()]
    assert events == ["load", "refuse", "load", *["refuse"] * (1 + staged.RELOADS_MAX)]
    assert (host.held(), host.pids()) == (0, [])


def test_nothing_is_started_while_the_slots_last_process_is_there(host: Host) -> None:
    with slot.locked(host.settings, slot.ENGINE):
        supervisor = host.start()
        until(lambda: "nothing is started before it goes" in host.log())
        time.sleep(1.0)
        assert children(supervisor.pid) == {}
        assert host.log().count("nothing is started before it goes") == 1
    until(lambda: host.loaded()["loads"] == 1)


def test_each_engine_has_bells_of_its_own(make_host: Callable[..., Host], tmp_path: Path) -> None:
    """Two workers on one queue server; the other engine's bells stay where they are."""
    host = make_host()
    host.start()
    until(lambda: host.loaded()["loads"] == 1)
    other = host.submit(engine="rehearsal", start_s=66)
    assert host.settings.redis_url is not None
    with redis.Redis.from_url(host.settings.redis_url) as client:
        bells = queue_name("rehearsal")
        before = client.llen(bells)
        for _ in range(3):
            assert ring_for(host.settings, host.database, other)
        own = host.submit(start_s=66)
        assert ring_for(host.settings, host.database, own)
        host.await_state(own, JobState.SUCCEEDED)
        assert client.llen(bells) == before + 3
        assert host.state(other) is JobState.QUEUED
        second = replace(host.settings, engine="rehearsal", slot=1)
        (tmp_path / "second").mkdir()
        with opened_host(
            tmp_path / "second",
            **{f.name: getattr(second, f.name) for f in fields(second)},
        ) as rehearsal:
            rehearsal.start()
            host.await_state(other, JobState.SUCCEEDED)
            until(lambda: client.llen(bells) == 0)
    assert [epoch.end_reason for epoch in host.ended(other).epochs] == ["completed"]
    assert host.loaded()["opens"] == 1
