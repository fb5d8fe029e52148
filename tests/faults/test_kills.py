"""The process that owns the engine is killed, hangs or runs out of memory, at every point."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.records import JobState
from pipeline.settings import PhaseLimits
from tests.faults.host import UNKILLABLE, Host
from tests.hosts import until
from tests.processes import needs_proc
from worker.enqueue import ring
from worker.processes import is_gone

pytestmark = needs_proc

UNIT_LIMIT_S = 3.0
"""Shorter than the lease, so that a process that hangs is told from one that is lost."""

BEGUN = 2
"""The unit in which most faults strike."""

TAKEN_BYTES = 192 * 1024**2
"""More than any process has that has loaded what a worker loads."""


@pytest.mark.parametrize(
    ("at", "sequence", "left", "fed"),
    [
        ("in_unit", BEGUN, 2, 3),
        ("before_unit_commit", BEGUN, 2, 3),
        ("after_unit_commit", BEGUN, 3, 3),
        ("after_claim", None, 0, 0),
        ("before_finish", None, 6, 6),
    ],
)
def test_a_killed_process_leaves_what_it_had_committed_and_is_not_repeated(
    host: Host, at: str, sequence: int | None, left: int, fed: int
) -> None:
    host.plan(at=at, do="kill", **({} if sequence is None else {"sequence": sequence}))
    first, second = host.submit(), host.submit()
    ring(host.settings)
    host.await_state(first, JobState.FAILED)
    assert host.reasons(first) == ["worker_lost"]
    seconds = [unit for unit in host.dossier(first).units if unit.second is not None]
    assert [unit.sequence for unit in seconds] == list(range(left))
    assert {entry["sequence"] for entry in host.events("entry", first)} >= set(range(fed))
    brief = host.brief(first)
    assert brief["status"]["kind"] in ("partial", "failed", "empty"), brief["status"]
    assert brief["coverage"]["time"][0]["duration_ms"] == 1000 * left
    # Nobody rang for the second job: the process that was killed could not.
    host.await_state(second, JobState.SUCCEEDED)
    for _ in range(3):
        ring(host.settings)
    host.await_silence()
    assert host.state(first) is JobState.FAILED


def test_a_process_killed_after_its_end_was_stored_changes_nothing(host: Host) -> None:
    host.plan(at="after_finish", do="kill")
    job_id = host.submit()
    ring(host.settings)
    host.await_fault()
    host.await_loaded()
    until(lambda: host.held() == 0)
    assert (host.state(job_id), host.reasons(job_id)) == (JobState.SUCCEEDED, ["completed"])
    assert host.brief(job_id)["status"]["kind"] == "complete"


@pytest.mark.parametrize("do", ["hang", "hang with the interpreter's lock"])
def test_a_hang_in_native_code_is_told_before_its_process_is_killed(host: Host, do: str) -> None:
    host.plan(at="in_unit", do=do, sequence=BEGUN)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    fault = host.await_fault()
    pid = fault["pid"]

    def given_up() -> bool:
        # Read in this order: whoever is gone while the row is still open was killed too early.
        is_dead = is_gone(pid)
        state = host.state(first)
        assert not (is_dead and state is JobState.RUNNING)
        return is_dead and state is JobState.FAILED

    until(given_up)
    assert time.monotonic() - fault["at"] > UNIT_LIMIT_S / 2
    assert host.reasons(first) in (["unit_timeout"], ["worker_lost"])
    if do == "hang":
        assert host.reasons(first) == ["unit_timeout"]
    assert host.units(first) == [0, 1]
    host.await_state(second, JobState.SUCCEEDED)
    assert host.events("claim", second)[0]["pid"] != pid


def test_a_unit_that_ends_too_late_is_refused(host: Host) -> None:
    host.plan(at="before_unit_commit", do="sleep", sleep_s=UNIT_LIMIT_S + 2, sequence=BEGUN)
    job_id = host.submit()
    ring(host.settings)
    host.await_state(job_id, JobState.FAILED)
    assert host.reasons(job_id) == ["unit_timeout"]
    assert host.units(job_id) == [0, 1]
    assert [key[2] for key in host.diary().of("stored") if key[0] == job_id] == [0, 1]


@pytest.mark.parametrize("do", ["run out of device memory", "run out of memory"])
def test_what_has_no_memory_left_ends_its_job_and_is_replaced(host: Host, do: str) -> None:
    host.plan(at="in_unit", do=do, sequence=BEGUN)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    host.await_state(first, JobState.FAILED)
    assert host.reasons(first) == ["engine_error"]
    assert host.units(first) == [0, 1]
    host.await_state(second, JobState.SUCCEEDED)
    (pid,) = {entry["pid"] for entry in host.events("entry", first)}
    assert pid not in {entry["pid"] for entry in host.events("entry", second)}
    assert is_gone(pid)


def badness(pid: int) -> tuple[int, int]:
    """What the kernel goes by when it looks for whom to kill, and pages in memory."""
    folder = Path(f"/proc/{pid}")
    pages = int((folder / "statm").read_text().split()[1])
    return int((folder / "oom_score").read_text()), pages


def test_whom_the_kernel_kills_for_its_memory_is_the_one_who_takes_it_and_is_not_repeated(
    host: Host,
) -> None:
    """As the kernel does: of all the host's processes the worst by its own score, while it takes
    more, and with nothing said."""
    host.plan(at="in_unit", do="take memory until killed", bytes=TAKEN_BYTES, sequence=BEGUN)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    taken = until(lambda: host.events("taken"))[0]
    victim = max(host.pids(), key=badness)
    assert victim == taken["pid"]
    os.kill(victim, signal.SIGKILL)
    host.await_state(first, JobState.FAILED)
    assert host.reasons(first) == ["worker_lost"]
    assert host.units(first) == list(range(BEGUN))
    assert host.brief(first)["coverage"]["time"][0]["duration_ms"] == 1000 * BEGUN
    host.await_state(second, JobState.SUCCEEDED)
    ring(host.settings)
    host.await_silence()
    assert host.state(first) is JobState.FAILED
    assert len(host.events("claim", first)) == 1
    assert is_gone(victim)


def test_a_stopped_process_that_goes_on_writes_nothing_and_calls_nothing(
    make_host: Callable[..., Host],
) -> None:
    host = make_host(phase_limits=PhaseLimits(unit=120.0))
    host.start()
    host.await_loaded()
    host.plan(at="in_unit", do="stop", sequence=BEGUN)
    first, second = host.submit(20), host.submit()
    ring(host.settings)
    pid = host.await_fault()["pid"]
    host.await_state(first, JobState.FAILED)
    # What is stopped may go on at any time: its slot stays held for as long as it is there.
    time.sleep(1.0)
    assert (host.state(second), host.held()) == (JobState.QUEUED, 1)
    os.kill(pid, signal.SIGCONT)
    host.await_state(second, JobState.SUCCEEDED)
    assert host.reasons(first) == ["worker_lost"]
    assert host.units(first) == [0, 1]
    assert len(host.events("entry", first)) == BEGUN + 1
    host.check()


def test_a_zombie_of_another_host_is_fenced_and_its_slot_is_left_to_its_host(
    make_host: Callable[..., Host],
) -> None:
    away = make_host(host_name="away", phase_limits=PhaseLimits(unit=120.0))
    near = make_host(host_name="near", diary=away.folder / "diary")
    supervisor = away.start()
    near.start()
    away.await_loaded(2)
    near.plan(is_held=True)
    away.plan(at="in_unit", do="stop", sequence=BEGUN)
    first = away.submit(20)
    zombie = away.await_fault()["pid"]
    # Its own host's processes look no more, so that the other host's reaper alone ends it.
    os.kill(supervisor.pid, signal.SIGSTOP)
    near.await_state(first, JobState.FAILED)
    assert near.reasons(first) == ["worker_lost"]
    near.plan()
    second = near.submit()
    near.await_state(second, JobState.SUCCEEDED)
    until(lambda: near.held() == 1)
    time.sleep(1.0)
    assert near.held() == 1

    os.kill(zombie, signal.SIGCONT)
    until(lambda: near.held() == 0)
    assert near.units(first) == [0, 1]
    assert len(away.events("entry", first)) == BEGUN + 1
    os.kill(supervisor.pid, signal.SIGCONT)
    near.check()


def test_a_process_that_cannot_be_killed_keeps_its_slot(make_host: Callable[..., Host]) -> None:
    host = make_host(phase_limits=PhaseLimits(unit=UNIT_LIMIT_S))
    host.start(**{UNKILLABLE: "1"})
    host.await_loaded()
    host.plan(at="in_unit", do="hang with the interpreter's lock", sequence=BEGUN)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    pid = host.await_fault()["pid"]
    host.await_state(first, JobState.FAILED)
    until(lambda: "does not go" in host.log())
    time.sleep(1.5)
    assert (host.state(second), host.held()) == (JobState.QUEUED, 1)
    os.kill(pid, signal.SIGKILL)
    host.await_state(second, JobState.SUCCEEDED)
    host.check()


def test_a_grace_that_is_too_short_is_a_kill(make_host: Callable[..., Host]) -> None:
    """SIGTERM, a unit that does not end, and SIGKILL for every process of the host."""
    host = make_host(stale_s=60.0)
    supervisor = host.start()
    host.await_loaded()
    host.plan(at="in_unit", do="hang", sequence=BEGUN)
    first, second = host.submit(), host.submit()
    ring(host.settings)
    host.await_fault()
    supervisor.send_signal(signal.SIGTERM)
    supervisor.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    host.kill_all()
    assert host.state(first) is JobState.RUNNING
    host.turn_page()
    host.start()
    host.await_state(first, JobState.FAILED)
    assert host.reasons(first) == ["worker_lost"]
    host.await_state(second, JobState.SUCCEEDED)
    assert host.events("entry", first) == []
    host.check()
