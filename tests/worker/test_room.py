"""A worker whose disk runs full: the epoch ends, and nothing is begun until there is room."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from sqlalchemy import text

from pipeline.ledger import space
from pipeline.ledger.frames import FolderFrames
from pipeline.records import EndReason, JobState
from tests.doubles import ScriptedEngine, block
from tests.worker.conftest import Host
from worker import dispatcher, room, station
from worker.station import Station

MIN_BYTES = 1_000_000

FULL_DATABASE = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
    END
    $$
"""
WRITTEN = ("units", "epochs", "jobs")


def execute(host: Host, *statements: str) -> None:
    with host.database.transaction() as session:
        for statement in statements:
            session.execute(text(statement))


class Disk:
    def __init__(self) -> None:
        self.free_bytes = MIN_BYTES

    def usage(self, folder: object) -> SimpleNamespace:
        return SimpleNamespace(free=self.free_bytes)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(space.shutil, "disk_usage", made.usage)
    return made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.action for record in caplog.records if record.name == room.__name__]


def test_a_full_disk_ends_the_epoch_and_nothing_is_begun_until_there_is_room(
    make_host: Callable[..., Host],
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    host = make_host(engine="scripted", free_bytes_min=MIN_BYTES)
    first = host.submit(engine="scripted", start_s=66)
    scripted = ScriptedEngine({3: block() + ScriptedEngine.END})
    made = Station(host.settings, engine=scripted, database=host.database)

    def full(self: object, frame: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(FolderFrames, "keep", full)
        assert made.work()
    assert ended(host, first) == (JobState.FAILED, EndReason.STORAGE_FULL.value, 3)
    assert host.brief(first)["status"]["kind"] == "partial"

    second = host.submit(engine="scripted", start_s=66)
    disk.free_bytes -= 1
    for _ in range(3):
        assert not made.work()
        assert not dispatcher.dispatch(host.database, host.settings)
    assert host.state(second) is JobState.QUEUED
    assert told(caplog) == ["space_low"]

    disk.free_bytes += 1
    assert made.work()
    assert host.state(second) is JobState.SUCCEEDED
    assert told(caplog) == ["space_low", "space_back"]
    assert len(host.ended(first).epochs) == 1


def test_a_database_that_takes_no_write_at_all_gets_the_end_once_it_has_room(
    make_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station, "SETTLE_PAUSE_S", 0.1)
    host = make_host(engine="scripted")
    job_id = host.submit(engine="scripted", start_s=66)

    def fill() -> None:
        execute(
            host,
            FULL_DATABASE,
            *(
                f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON {table}"
                " FOR EACH ROW EXECUTE FUNCTION full_disk()"
                for table in WRITTEN
            ),
        )
        timer.start()

    def make_room() -> None:
        execute(host, *(f"DROP TRIGGER full_disk ON {table}" for table in WRITTEN))

    timer = threading.Timer(1.5, make_room)
    engine = ScriptedEngine({3: block() + ScriptedEngine.END}, before={2: fill})
    assert Station(host.settings, engine=engine, database=host.database).work()
    timer.join()
    assert ended(host, job_id) == (JobState.FAILED, EndReason.STORAGE_FULL.value, 2)


def ended(host: Host, job_id: str) -> tuple[JobState, str | None, int]:
    """How, and after how many units; nothing is held."""
    dossier = host.ended(job_id)
    (epoch,) = dossier.epochs
    assert host.held() == 0
    return dossier.state, epoch.end_reason, len(dossier.units)
