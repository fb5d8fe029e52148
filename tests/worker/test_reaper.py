"""Who may end and who may free somebody else's epoch, on real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from pipeline.ledger import briefs, jobs
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import EpochKey
from pipeline.records import EndReason, JobState
from pipeline.settings import Settings
from tests.pipeline.ledger.factories import record_unit, rows, start
from tests.processes import needs_proc
from worker import reaper, slot, watchdog
from worker.processes import is_gone

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
    reaper.reap(database, settings)
    assert states(database, key) == FREE
    assert briefs.latest(database, key.job_id) is not None


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
    watchdog.watch(database, settings)
    assert states(database, key) == LIVE
    age(database, key, "progress_at", 70)
    watchdog.watch(database, replace(settings, slot=1))
    assert states(database, key) == LIVE
    watchdog.watch(database, settings)
    assert states(database, key) == (JobState.FAILED, "unit_timeout", True)


def test_the_watchdog_kills_no_process_that_does_not_hold_the_slot(
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(watchdog, "GONE_S", 0.2)
    innocent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        key = start(database, host=HERE, slot="here/0", pid=innocent.pid)
        age(database, key, "progress_at", 130)
        watchdog.watch(database, settings)
        assert innocent.poll() is None
        # The number may be that of the process that hangs: the slot stays held.
        assert states(database, key) == (JobState.FAILED, "unit_timeout", False)
        assert "does not go" in caplog.text
        caplog.clear()
    finally:
        innocent.kill()
        innocent.wait()


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
