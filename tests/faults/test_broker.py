"""The queue is restarted, emptied, frozen and full, rings too often, and rings a job that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from pipeline.ledger import claims, jobs
from pipeline.records import JobState
from pipeline.settings import PhaseLimits
from tests.faults import emulation, neighbour
from tests.faults.host import Host, site
from tests.faults.servers import Servers
from tests.hosts import ROOT, until
from tests.processes import needs_proc
from worker import pool
from worker.app import broker_url
from worker.enqueue import ring

pytestmark = needs_proc

UNIT_S = 0.15

LONG = 20
"""Units of a job that is still running when the queue is back."""


def in_order(host: Host, *job_ids: str) -> None:
    """Each ran once, one after the other."""
    for job_id in job_ids:
        host.await_state(job_id, JobState.SUCCEEDED)
    assert [entry["job"] for entry in host.events("claim")] == list(job_ids)


@pytest.mark.parametrize("loss", ["restarted", "emptied", "lost with its data"])
def test_a_queue_that_goes_during_a_job_costs_neither_it_nor_those_behind_it(
    host: Host, servers: Servers, loss: str
) -> None:
    host.plan(unit_s=UNIT_S)
    first = host.submit(LONG)
    ring(host.settings)
    host.await_entries(first)
    second, third = host.submit(), host.submit()
    ring(host.settings)
    if loss == "emptied":
        with redis.Redis.from_url(servers.valkey.url) as client:
            client.flushall()
    else:
        servers.end_valkey() if loss == "restarted" else servers.lose_valkey()
        time.sleep(0.5)
        assert host.state(first) is JobState.RUNNING
        servers.valkey.start()
    host.plan()
    in_order(host, first, second, third)


def test_a_full_queue_refuses_the_bell_and_the_job_runs_once_there_is_room(
    host: Host, servers: Servers
) -> None:
    with redis.Redis.from_url(servers.valkey.url) as client:
        client.config_set("maxmemory", "1")
        try:
            job_id = host.submit()
            began = time.monotonic()
            assert not any(ring(host.settings) for _ in range(4))
            assert time.monotonic() - began < 10
            time.sleep(1.0)
            assert host.processes[-1].poll() is None, host.log()
            assert host.state(job_id) is JobState.QUEUED
        finally:
            client.config_set("maxmemory", "0")
    in_order(host, job_id)


def test_a_queue_that_stops_answering_holds_nobody_up_and_loses_no_job(
    host: Host, servers: Servers
) -> None:
    pid = servers.valkey.server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        job_id = host.submit()
        began = time.monotonic()
        assert not ring(host.settings)
        assert time.monotonic() - began < 6
        assert host.state(job_id) is JobState.QUEUED
    finally:
        os.kill(pid, signal.SIGCONT)
    in_order(host, job_id)


def test_ten_bells_at_any_moment_are_one_epoch(host: Host) -> None:
    def ten() -> None:
        for _ in range(10):
            assert ring(host.settings)

    host.plan(is_held=True)
    done = host.submit()
    ten()
    host.plan(unit_s=0.05)
    host.await_entries(done)
    ten()
    host.await_state(done, JobState.SUCCEEDED)
    ten()
    host.await_silence()

    host.plan(at="in_unit", do="run out of device memory", sequence=1)
    failed = host.submit()
    ten()
    host.await_state(failed, JobState.FAILED)
    ten()
    host.plan(is_held=True)
    canceled = host.submit()
    ten()
    jobs.request_cancel(host.database, canceled)
    host.plan()
    host.await_silence()
    until(lambda: claims.waiting(host.database, engine=None) == 0)
    time.sleep(0.5)
    assert {entry["job"] for entry in host.events("claim")} == {done, failed}
    assert len(host.events("claim")) == 2
    assert host.events("entry", canceled) == []
    # Nothing to do costs next to nothing.
    assert len(host.events("nothing")) >= 5


@contextmanager
def running_neighbour(url: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", neighbour.__name__, url], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("kept", ["as shipped", "kept until acknowledged"])
def test_another_applications_worker_cannot_have_a_running_job_begin_again(
    make_host: Callable[..., Host], servers: Servers, kept: str
) -> None:
    """It puts back every bell that is older than its own timeout. As shipped there is none to put
    back; with bells kept until they are acknowledged, the database refuses what they ask for."""
    # A database of the queue's own: this module's host answers bells too.
    queue_url = servers.valkey.url.replace("?db=0", "?db=3")
    host = make_host(redis_url=queue_url, phase_limits=PhaseLimits(unit=60.0))
    if kept == "as shipped":
        host.start()
    else:
        # The pool that acknowledges only after the job, whatever it is told.
        host.start(**{emulation.VARIABLE: "1", pool.TEST_VARIABLE: "1", **site()})
    host.await_loaded()
    host.plan(unit_s=3.0)
    with (
        redis.Redis.from_url(queue_url) as client,
        running_neighbour(broker_url(host.settings)),
    ):
        client.delete("unacked_mutex")  # of a neighbour that was killed while it looked
        job_id = host.submit(LONG)
        ring(host.settings)
        host.await_entries(job_id)
        if kept == "as shipped":
            time.sleep(4 * neighbour.TIMEOUT_S)
        else:
            until(lambda: host.bells() > 0)  # else nothing is tested
        host.plan()
        host.await_state(job_id, JobState.SUCCEEDED)
        host.await_silence()
    assert len(host.events("claim")) == 1
    host.check()
