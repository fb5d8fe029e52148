"""Who may end and who may free somebody else's epoch, on real PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from pipeline.ledger import briefs, jobs, workers
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import SlotBusy
from pipeline.ledger.workers import WorkerState
from pipeline.records import EndReason, JobState
from pipeline.settings import Settings
from tests.hosts import until
from tests.pipeline.ledger.factories import record_unit, rows, start
from tests.processes import needs_proc
from worker import press, reaper, slot, watchdog
from worker.press import Press
from worker.processes import is_gone
from worker.supervisor import child_environment
from worker.watchdog import Watchdog

pytestmark = needs_proc

HERE = "here"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = connect(database_url)
    yield opened
    opened.dispose()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, host_name=HERE, stale_s=90.0)


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def age(database: Database, key: EpochKey, column: str, seconds: float) -> None:
    with database.transaction() as session:
        session.execute(
            text(
                f"UPDATE epochs SET {column} = now() - make_interval(secs => :s)"
                " WHERE job_id = :job AND number = :number"
            ),
            {"s": seconds, "job": key.job_id, "number": key.number},
        )


def states(database: Database, key: EpochKey) -> tuple[JobState, str | None, bool]:
    ((reason, released),) = rows(
        database,
        "SELECT end_reason, released_at IS NOT NULL FROM epochs WHERE job_id = :job",
        job=key.job_id,
    )
    return jobs.state_of(database, key.job_id), reason, released


LIVE = (JobState.RUNNING, None, False)
HELD = (JobState.FAILED, "worker_lost", False)
FREE = (JobState.FAILED, "worker_lost", True)


def test_a_process_of_this_host_that_is_gone_is_given_up_at_once_and_its_slot_freed(
    database: Database, settings: Settings, dead_pid: int
) -> None:
    key = start(database, host=HERE, slot="here/0", pid=dead_pid)
    record_unit(database, key)
    publisher = reaper.Publisher(database, after_s=60)
    reaper.reap(database, settings, on_end=publisher.want)
    assert states(database, key) == FREE
    # A render that hangs must not keep the reaper from the next epoch: it is somebody else's.
    assert briefs.latest(database, key.job_id) is None
    publisher.publish_missing()
    brief = briefs.latest(database, key.job_id)
    assert brief is not None
    assert brief.status == "partial"


def test_a_live_process_is_left_alone_until_it_has_been_silent_for_long(
    database: Database, settings: Settings
) -> None:
    key = start(database, host=HERE, slot="here/0", pid=os.getpid())
    with slot.locked(settings, slot.ENGINE):
        age(database, key, "alive_at", 80)
        reaper.reap(database, settings)
        assert states(database, key) == LIVE
        age(database, key, "alive_at", 100)
        reaper.reap(database, settings)
        # It is fenced, but it holds the engine for as long as it lives.
        assert states(database, key) == HELD
    reaper.reap(database, settings)
    assert states(database, key) == FREE


def test_another_hosts_slot_is_never_freed_from_here(
    database: Database, settings: Settings, dead_pid: int
) -> None:
    key = start(database, host="there", slot="there/0", pid=dead_pid)
    reaper.reap(database, settings)
    assert states(database, key) == LIVE
    age(database, key, "alive_at", 100)
    reaper.reap(database, settings)
    reaper.reap(database, settings)
    assert states(database, key) == HELD


def test_what_was_lost_is_never_queued_again(
    database: Database, settings: Settings, dead_pid: int
) -> None:
    key = start(database, host=HERE, slot="here/0", pid=dead_pid)
    for _ in range(3):
        reaper.reap(database, settings)
    assert jobs.state_of(database, key.job_id) is JobState.FAILED


def test_a_process_that_takes_the_slot_ends_what_one_of_its_own_number_began(
    database: Database, settings: Settings
) -> None:
    """In a container every process has the number it had before the restart."""
    key = start(database, host=HERE, slot="here/0", pid=os.getpid())
    other = start(database, host=HERE, slot="here/1", pid=os.getpid())
    with slot.locked(settings, slot.ENGINE):
        reaper.clear_slot(database, settings)
    assert states(database, key) == FREE
    assert states(database, other) == LIVE


def test_a_lost_worker_of_a_job_that_was_being_canceled_ends_it_canceled(
    database: Database, settings: Settings, dead_pid: int
) -> None:
    key = start(database, host=HERE, slot="here/0", pid=dead_pid)
    jobs.request_cancel(database, key.job_id)
    reaper.reap(database, settings)
    assert states(database, key) == (JobState.CANCELED, "worker_lost", True)


def test_what_a_leaving_worker_did_not_publish_is_published_later_and_once(
    database: Database,
) -> None:
    key = start(database)
    record_unit(database, key)
    publisher = reaper.Publisher(database, after_s=0)
    publisher.publish_missing()
    assert briefs.latest(database, key.job_id) is None
    jobs.finish(database, key, outcome=JobState.FAILED, end_reason=EndReason.WORKER_SHUTDOWN)
    reaper.Publisher(database, after_s=60).publish_missing()
    assert briefs.latest(database, key.job_id) is None
    publisher.publish_missing()
    publisher.publish_missing()
    brief = briefs.latest(database, key.job_id)
    assert brief is not None
    assert (brief.revision, brief.status) == (1, "partial")


def test_the_watchdog_judges_a_phase_by_its_own_limit_and_only_its_own_slot(
    database: Database, settings: Settings, dead_pid: int
) -> None:
    key = start(database, host=HERE, slot="here/0", pid=dead_pid)
    record_unit(database, key)
    settings = replace(settings, phase_limits=replace(settings.phase_limits, unit=60.0))
    age(database, key, "progress_at", 50)
    ended: list[str] = []
    dog = Watchdog(database, settings, on_end=ended.append)
    dog.watch()
    assert states(database, key) == LIVE
    age(database, key, "progress_at", 70)
    Watchdog(database, replace(settings, slot=1)).watch()
    assert (states(database, key), ended) == (LIVE, [])
    dog.watch()
    assert ended == [key.job_id]
    assert states(database, key) == (JobState.FAILED, "unit_timeout", True)


def test_the_watchdog_kills_no_process_that_does_not_hold_the_slot(
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(watchdog, "GONE_S", 0.0)
    innocent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        key = start(database, host=HERE, slot="here/0", pid=innocent.pid)
        age(database, key, "progress_at", 130)
        Watchdog(database, settings).watch()
        assert innocent.poll() is None
        # The number may be that of the process that hangs: the slot stays held.
        assert states(database, key) == (JobState.FAILED, "unit_timeout", False)
        assert "does not go" in caplog.text
        caplog.clear()
    finally:
        innocent.kill()
        innocent.wait()


HOLDING = """
import os, sys, time
from pathlib import Path
from pipeline.settings import Settings
from worker import slot
with slot.locked(Settings(data_dir=Path(sys.argv[1]), host_name=sys.argv[2]), slot.ENGINE):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holding(settings: Settings, repository: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the slot's engine."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(settings.data_dir), HERE],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_process_that_outlives_its_kill_quarantines_its_slot_until_it_goes(
    database: Database,
    settings: Settings,
    holding: subprocess.Popen[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[int] = []
    kill = os.kill
    # A driver's call that cannot be interrupted: the signal is sent and nothing comes of it.
    monkeypatch.setattr(os, "kill", lambda pid, n: sent.append(n) if n else kill(pid, n))
    monkeypatch.setattr(watchdog, "GONE_S", 0.3)
    key = start(database, host=HERE, slot="here/0", pid=holding.pid)
    worker = workers.register(
        database, host=HERE, slot="here/0", engine="rehearsal", pid=holding.pid
    )
    workers.set_state(database, worker, WorkerState.READY)
    age(database, key, "progress_at", 130)
    dog = Watchdog(database, settings)

    def seen() -> tuple[bool, WorkerState, bool]:
        dog.watch()
        reaper.reap(database, settings)
        (row,) = workers.listed(database)
        return states(database, key)[2], row.state, dog.is_quarantined

    assert seen() == (False, WorkerState.READY, False)
    time.sleep(0.4)
    for _ in range(2):  # it says so once
        assert seen() == (False, WorkerState.QUARANTINED, True)
    assert sent == [signal.SIGKILL]
    assert caplog.text.count("does not go") == 1
    with pytest.raises(SlotBusy):
        start(database, host=HERE, slot="here/0", pid=os.getpid())
    assert Watchdog(database, settings).watch() is None  # a supervisor that was replaced meanwhile
    assert seen()[1] is WorkerState.QUARANTINED
    caplog.clear()
    kill(holding.pid, signal.SIGKILL)
    holding.wait()
    assert seen() == (True, WorkerState.QUARANTINED, True)
    assert seen() == (True, WorkerState.GONE, False)


def test_a_brief_is_made_by_a_process_that_is_ended_at_its_limit(
    database: Database,
    settings: Settings,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(press, "SPARE_S", 60.0)  # so that it is the process's own limit
    key = start(database)
    jobs.finish(database, key, outcome=JobState.FAILED, end_reason=EndReason.WORKER_SHUTDOWN)
    environment = child_environment(replace(settings, database_url=database_url), os.environ)
    assert not Press(environment, limit_s=0.001).publish(key.job_id)
    assert "took too long" in caplog.text
    caplog.clear()
    assert briefs.latest(database, key.job_id) is None
    patient = Press(environment, limit_s=60)
    assert patient.publish(key.job_id)
    assert briefs.latest(database, key.job_id) is not None
    patient.leave()
    assert not patient.publish(key.job_id)


def test_a_slot_is_held_by_one_at_a_time_and_freed_with_its_process(settings: Settings) -> None:
    assert slot.holder(settings, slot.ENGINE) is None
    with slot.locked(settings, slot.ENGINE):
        assert slot.holder(settings, slot.ENGINE) == os.getpid()
        with pytest.raises(slot.SlotTaken), slot.locked(settings, slot.ENGINE):
            pass
        with (
            slot.locked(settings, slot.SUPERVISOR),
            slot.locked(replace(settings, slot=1), slot.ENGINE),
        ):
            pass
    assert slot.holder(settings, slot.ENGINE) is None


def test_a_process_that_nobody_collected_counts_as_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(process.pid)
    process.wait()
    assert is_gone(process.pid)
    assert not is_gone(os.getpid())


LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall(60 if "x86" in __import__("platform").machine() else 93, 0)
"""


def test_a_process_of_which_one_thread_is_left_is_not_gone() -> None:
    """As a driver leaves it: the kill has ended its first thread, and the system calls it ended."""
    process = subprocess.Popen([sys.executable, "-c", LEADERLESS])
    until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "Z")
    assert not is_gone(process.pid)
    process.kill()
    process.wait()
    assert is_gone(process.pid)
