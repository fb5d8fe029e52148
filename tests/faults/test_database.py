"""PostgreSQL is restarted, away for long, and full; so is the disk for evidence."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from pipeline.ledger.database import Database
from pipeline.records import JobState
from tests.faults.disk import in_place_of, log_on, on_disk, owner_of, small_disk
from tests.faults.host import Host
from tests.faults.servers import Servers
from tests.hosts import until
from tests.pipeline.ledger.factories import rows
from tests.processes import needs_proc
from worker.enqueue import ring

pytestmark = needs_proc

LONG = 30
BEGUN = 2
IN_TURN = 4
"""The rehearsal has begun to speak of the second picture, and is not at its end."""
AT_COMMIT = 4


def execute(database: Database, *statements: str) -> None:
    with database.transaction() as session:
        for statement in statements:
            session.execute(text(statement))


def test_restarts_during_a_job_lose_and_repeat_no_unit(host: Host, servers: Servers) -> None:
    restarts = 20 if "OMNAI_TEST_LONG" in os.environ else 3
    length = 6 * restarts + 12
    host.plan(unit_s=0.1)
    job_id = host.submit(length)
    ring(host.settings)
    for seen in range(3, 6 * restarts, 6):
        until(lambda seen=seen: len(host.events("stored", job_id)) >= seen)  # type: ignore[misc]
        servers.end_postgres()
        servers.postgres.start()
    host.await_state(job_id, JobState.SUCCEEDED)
    seconds = [unit.second for unit in host.dossier(job_id).units if unit.second is not None]
    assert seconds == list(range(length))
    assert len(host.events("claim")) == 1


@pytest.mark.parametrize("is_kept", [False, True], ids=["not written", "written and not told"])
def test_a_commit_whose_outcome_is_unknown_is_repeated_without_the_model(
    host: Host, servers: Servers, tmp_path: Path, is_kept: bool
) -> None:
    """Killed inside the commit: before its record is written, or once it is, while the server
    waits for a standby that never comes."""
    gate = tmp_path / "gate"
    gate.touch()
    host.plan(at="in_unit_transaction", sequence=AT_COMMIT, do="wait", while_there=str(gate))
    job_id = host.submit()
    ring(host.settings)
    pid = host.await_fault()["pid"]
    if is_kept:
        wait_for_standby(servers, gate)
    os.kill(pid, signal.SIGSTOP)  # so that it does not repeat the write before it is looked for
    servers.end_postgres()
    (servers.postgres.data / "postgresql.auto.conf").write_text("")
    gate.unlink(missing_ok=True)
    servers.postgres.start()
    kept = rows(host.database, "SELECT max(sequence) FROM units WHERE job_id = :id", id=job_id)
    assert kept == [(AT_COMMIT if is_kept else AT_COMMIT - 1,)]
    os.kill(pid, signal.SIGCONT)
    host.await_state(job_id, JobState.SUCCEEDED)
    assert [entry["sequence"] for entry in host.events("entry", job_id)] == host.units(job_id)


def wait_for_standby(servers: Servers, gate: Path) -> None:
    """Have the waiting transaction commit, and return once it is written and nobody was told."""
    with servers.postgres._connect("omnai") as asked:

        def waiting(what: str) -> bool:
            found = asked.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND {what}")
            return found.fetchone() is not None

        [(pid,)] = asked.execute(
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'"
            " AND application_name = 'omnai'"
        ).fetchall()
        asked.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        asked.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)  # each session reads it before its next statement
        gate.unlink()
        until(lambda: waiting("wait_event = 'SyncRep'"))


def test_an_outage_past_the_budget_ends_the_job_under_its_own_name(
    host: Host, servers: Servers
) -> None:
    host.plan(unit_s=0.1, outage_s=0.5)
    job_id = host.submit(LONG)
    ring(host.settings)
    host.await_entries(job_id, 3)
    servers.end_postgres()
    time.sleep(2.5)
    servers.postgres.start()
    host.await_state(job_id, JobState.FAILED)
    assert host.reasons(job_id) == ["database_unavailable"]
    after = host.submit()
    host.await_state(after, JobState.SUCCEEDED)


FULL = """
    CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$
"""
"""The state that PostgreSQL gives a statement whose file cannot grow."""


@pytest.mark.parametrize("begun", [BEGUN, IN_TURN], ids=["before a turn", "inside a turn"])
def test_a_database_without_room_ends_the_job_and_shows_nothing_half(
    host: Host, begun: int
) -> None:
    execute(
        host.database,
        FULL,
        "CREATE TRIGGER full_disk BEFORE INSERT ON units FOR EACH ROW"
        f" WHEN (NEW.sequence >= {begun}) EXECUTE FUNCTION full_disk()",
    )
    try:
        job_id = host.submit()
        ring(host.settings)
        host.await_state(job_id, JobState.FAILED)
    finally:
        execute(host.database, "DROP TRIGGER full_disk ON units")
    assert host.reasons(job_id) == ["storage_full"]
    assert host.units(job_id) == list(range(begun))
    cut = [text.origin.last_sequence for text in host.dossier(job_id).evidence]
    assert cut == ([begun - 1] if begun == IN_TURN else [])
    host.await_silence()
    assert len(host.events("claim")) == 1


FRAMES_BYTES = 64 * 1024
"""A dozen frames of the rehearsal's, or a few where a file takes two pages."""

NAMED = "SELECT sha256 FROM frames WHERE job_id = :id"


def check_evidence(host: Host, job_id: str) -> None:
    """Every frame that a row names is there, and nothing half lies beside them."""
    folder = host.settings.data_dir / "frames"
    named = {row[0] for row in rows(host.database, NAMED, id=job_id)}
    assert named <= {path.stem for path in folder.rglob("*.jpg")}
    assert list(folder.rglob("*.part")) == []


def test_a_disk_that_fills_up_ends_the_job_before_its_row(host: Host) -> None:
    host.plan(at="in_unit", sequence=BEGUN, do="fill the disk")
    job_id = host.submit(20)
    ring(host.settings)
    host.await_state(job_id, JobState.FAILED)
    assert host.reasons(job_id) == ["storage_full"]
    assert host.units(job_id)[:BEGUN] == list(range(BEGUN))
    check_evidence(host, job_id)


DATA_BYTES = 64 << 20

LOG_BYTES = 192 << 20
"""More segments than are ever kept for later."""

SEGMENTS_MAX = 16

NO_SPACE = os.strerror(errno.ENOSPC).encode()
"""As PostgreSQL says it, which asks the system too."""


def test_a_database_on_a_disk_that_fills_up_ends_the_job_and_room_on_it_runs_the_next_one(
    host: Host, servers: Servers
) -> None:
    with small_disk(DATA_BYTES, owner=owner_of(servers)) as disk, on_disk(disk, servers):
        host.plan(unit_s=0.01)
        full = host.submit(1000)
        ring(host.settings)
        host.await_entries(full, BEGUN)
        log = servers.postgres.server.log_file
        told = log.stat().st_size
        disk.fill()
        host.await_state(full, JobState.FAILED)
        assert NO_SPACE in log.read_bytes()[told:]
        assert host.reasons(full) == ["storage_full"]
        left = host.units(full)
        assert left == list(range(len(left)))
        assert left == [key[2] for key in host.diary().of("stored") if key[0] == full]
        ring(host.settings)
        host.await_silence()
        assert len(host.events("claim")) == 1
        disk.make_room()
        host.plan()
        again = host.submit()
        ring(host.settings)
        host.await_state(again, JobState.SUCCEEDED)
        assert len(host.events("claim", full)) == 1


def write_log(servers: Servers) -> None:
    """A file after the other; those that are there already are begun as well."""
    with servers.postgres._connect("omnai") as asked:
        for _ in range(SEGMENTS_MAX):
            asked.execute("SELECT pg_switch_wal()")
            asked.execute("SELECT pg_logical_emit_message(false, 'omnai', 'a new segment')")


def test_a_database_without_room_for_its_log_goes_and_costs_no_unit_once_it_is_back(
    host: Host, servers: Servers
) -> None:
    """PostgreSQL ends itself rather than a commit that it cannot write."""
    with small_disk(LOG_BYTES, owner=owner_of(servers)) as disk, log_on(disk, servers):
        host.plan(unit_s=0.1)
        job_id = host.submit(LONG)
        ring(host.settings)
        host.await_entries(job_id, BEGUN)
        log = servers.postgres.server.log_file
        told = log.stat().st_size
        disk.fill()
        with pytest.raises(psycopg.OperationalError):
            write_log(servers)
        assert NO_SPACE in log.read_bytes()[told:]
        seen = len(host.events("entry", job_id))
        disk.make_room()
        servers.postgres.start()
        assert host.state(job_id) is JobState.RUNNING
        host.await_state(job_id, JobState.SUCCEEDED)
        assert [entry["sequence"] for entry in host.events("entry", job_id)] == host.units(job_id)
        assert seen < len(host.units(job_id))
        assert len(host.events("claim")) == 1
        assert host.brief(job_id)["status"]["kind"] == "complete"
        until(lambda: host.held() == 0)


def test_a_file_system_that_is_full_ends_the_job_and_room_on_it_runs_the_next_one(
    host: Host,
) -> None:
    folder = host.settings.data_dir / "frames"
    with (
        small_disk(FRAMES_BYTES, owner=os.geteuid()) as disk,
        in_place_of(folder, disk.path, aside=folder.with_name("aside")),
    ):
        disk.fill()
        full = host.submit(20)
        ring(host.settings)
        host.await_state(full, JobState.FAILED)
        assert host.reasons(full) == ["storage_full"]
        check_evidence(host, full)
        host.await_silence()
        assert len(host.events("claim")) == 1
        disk.make_room()
        again = host.submit(7)
        ring(host.settings)
        host.await_state(again, JobState.SUCCEEDED)
        check_evidence(host, again)
        assert rows(host.database, NAMED, id=again)
