"""The night's window at a worker: no bell while it is closed, and what runs when it closes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pipeline.engine.session import Session
from pipeline.errors import SessionStopped
from pipeline.ledger import briefs, queue, reruns
from pipeline.ledger.queue import QueueState
from pipeline.ledger.reruns import RerunStart
from pipeline.media_child import MediaChild
from pipeline.records import JobState, SessionContext
from pipeline.run import CLOSED_EARLY_DETAIL
from tests.bucket import breaking, made_bucket
from tests.doubles import ScriptedEngine
from tests.hosts import until
from tests.pipeline.ledger.clock import tell, told
from tests.processes import needs_proc
from tests.worker.conftest import Host
from worker import station
from worker.dispatcher import dispatch
from worker.enqueue import ring
from worker.station import Station

NIGHT = {"night": "19:30-06:30", "night_zone": "Europe/Berlin"}
BEFORE_CLOSE, AT_CLOSE, EVENING = (
    *("2026-01-16T05:29:59Z", "2026-01-16T05:30:00Z"),
    "2026-01-16T18:30:00Z",
)
JUST_BEFORE_CLOSE = "2026-01-16T05:29:59.5Z"


@pytest.fixture(autouse=True)
def _clock(database_url: str) -> Iterator[None]:
    with told(database_url, BEFORE_CLOSE):
        yield


STUCK_S = 60.0
"""What does not get on would not for so long; nobody waits for it."""


class SlowEngine(ScriptedEngine):
    """Every second takes it 0.1 s, and where it `is_stuck` an opening goes on until it is told."""

    def __init__(self, *, is_stuck: bool = False) -> None:
        super().__init__(before={n: lambda: time.sleep(0.1) for n in range(12)})
        self._is_stuck = is_stuck
        self._told = threading.Event()

    def open(self, context: SessionContext) -> Session:
        self._told.clear()
        if self._is_stuck and self._told.wait(STUCK_S):
            raise SessionStopped
        return super().open(context)

    def stop_opening(self) -> None:
        self._told.set()


class StuckMedia(MediaChild):
    """A real process that says nothing."""

    def _start(self, argument: str) -> subprocess.Popen[bytes]:
        process = super()._start(argument)
        os.kill(process.pid, signal.SIGSTOP)
        return process


class LateMedia(StuckMedia):
    """The window closes before anybody knows of it."""

    def _start(self, argument: str) -> subprocess.Popen[bytes]:
        time.sleep(0.8)
        return super()._start(argument)


def work(host: Host, engine: ScriptedEngine | None = None) -> tuple[bool, ScriptedEngine]:
    engine = engine or SlowEngine()
    return Station(host.settings, engine=engine, database=host.database).work(), engine


def rerun(host: Host, job_id: str) -> None:
    reruns.request(
        host.database, job_id, start=RerunStart.LAST_COMPLETED, reason="The night.", by="root"
    )


@pytest.mark.parametrize("is_hard", [True, False], ids=["hard end", "soft end"])
def test_what_runs_when_the_window_closes_goes_on_unless_the_end_is_hard(
    make_host: Callable[..., Host], is_hard: bool
) -> None:
    host = make_host(engine="scripted", night_hard_end=is_hard, **NIGHT)
    first, second = (host.submit(engine="scripted", start_s=60) for _ in range(2))
    has_worked, engine = work(host)
    assert has_worked
    dossier = host.ended(first)
    assert [unit.sequence for unit in dossier.units] == engine.fed
    brief = briefs.latest(host.database, first)
    assert brief is not None
    if is_hard:
        assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.FAILED, "night_ended")
        # Twelve of them take longer than the second that is left; a slow start may leave none.
        assert len(engine.fed) < 12
        assert (brief.status, host.held()) == ("partial", 0)
    else:
        assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.SUCCEEDED, "completed")
        assert len(engine.fed) == 12
    # The worker stays, and takes the next one in the evening.
    tell(host.database, AT_CLOSE)
    assert not work(host)[0]
    assert host.state(second) is JobState.QUEUED
    tell(host.database, EVENING)
    assert work(host)[0]
    assert host.state(second) is JobState.SUCCEEDED


def test_the_dispatcher_rings_while_the_window_and_the_queue_are_open_and_only_then(
    make_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(**NIGHT)
    host.submit()
    monkeypatch.setattr("worker.dispatcher.ring", lambda *_, **__: True)
    monkeypatch.setattr("worker.dispatcher._is_bell_waiting", lambda *_, **__: False)
    rang = []
    for at, state in (
        (BEFORE_CLOSE, QueueState.OPEN),
        (AT_CLOSE, QueueState.OPEN),
        (EVENING, QueueState.PAUSED),
        (EVENING, QueueState.DRAINING),
        (EVENING, QueueState.OPEN),
    ):
        tell(host.database, at)
        with host.database.transaction() as session:
            queue.set_state(session, state)
        rang.append(dispatch(host.database, host.settings))
    assert rang == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("is_opening", "media"),
    [(True, MediaChild), (False, StuckMedia), (False, LateMedia)],
    ids=["opening", "reading", "about to read"],
)
def test_what_has_not_come_to_its_first_second_ends_at_once_and_runs_when_it_is_asked_for(
    make_host: Callable[..., Host],
    monkeypatch: pytest.MonkeyPatch,
    is_opening: bool,
    media: type[MediaChild],
) -> None:
    host = make_host(engine="scripted", night_hard_end=True, **NIGHT)
    job_id = host.submit(engine="scripted", start_s=70)
    tell(host.database, JUST_BEFORE_CLOSE)
    began = time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr(station, "MediaChild", media)
        assert work(host, SlowEngine(is_stuck=is_opening))[0]
    assert time.monotonic() - began < STUCK_S / 2
    check_ended_early(host, job_id)
    # Nothing runs it again by itself; asked for, it waits for the evening and runs as a whole.
    tell(host.database, EVENING)
    assert not work(host)[0]
    tell(host.database, AT_CLOSE)
    rerun(host, job_id)
    assert not work(host)[0]
    tell(host.database, EVENING)
    assert work(host)[0]
    dossier = host.ended(job_id)
    assert dossier.state is JobState.SUCCEEDED
    assert [unit.second for unit in dossier.units] == [70, 71]


@needs_proc
def test_a_worker_process_leaves_a_silent_storage_at_the_close_and_stays_for_the_evening(
    make_host: Callable[..., Host], s3_url: str
) -> None:
    with breaking(s3_url) as (url, faults):
        place = {"blobs": f"s3://{made_bucket(s3_url)}/kept", "s3_endpoint": url}
        host = make_host(night_hard_end=True, **NIGHT, **place)
        host.start()
        until(lambda: host.loaded()["loads"] == 1)
        job_id = host.submit(start_s=70)
        faults.silence = threading.Event()
        began = time.monotonic()
        ring(host.settings)
        host.await_state(job_id, JobState.FAILED)
        assert time.monotonic() - began < STUCK_S / 2
        until(lambda: host.held() == 0)
        check_ended_early(host, job_id)
        assert host.fed() == []
        assert list((host.settings.data_dir / "blobs" / "staged").iterdir()) == []
        faults.silence.set()
        tell(host.database, EVENING)
        rerun(host, job_id)
        ring(host.settings)
        host.await_state(job_id, JobState.SUCCEEDED)
        assert host.fed() == [0, 1]
        assert host.loaded()["loads"] == 1
        host.end()


def check_ended_early(host: Host, job_id: str) -> None:
    dossier = host.ended(job_id)
    (epoch,) = dossier.epochs
    assert (dossier.state, dossier.units, host.held()) == (JobState.FAILED, (), 0)
    assert (epoch.end_reason, epoch.end_detail) == ("night_ended", CLOSED_EARLY_DETAIL)
    assert host.brief(job_id)["provenance"]["epochs"][0]["end_detail"] == CLOSED_EARLY_DETAIL
