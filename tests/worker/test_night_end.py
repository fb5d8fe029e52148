"""The night's window at a worker: no bell while it is closed, and what runs when it closes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from pipeline.ledger import briefs, queue
from pipeline.ledger.queue import QueueState
from pipeline.records import JobState
from tests.doubles import ScriptedEngine
from tests.pipeline.ledger.clock import tell, told
from tests.worker.conftest import Host
from worker.dispatcher import dispatch
from worker.station import Station

NIGHT = {"night": "19:30-06:30", "night_zone": "Europe/Berlin"}
BEFORE_CLOSE, AT_CLOSE, EVENING = (
    *("2026-01-16T05:29:59Z", "2026-01-16T05:30:00Z"),
    "2026-01-16T18:30:00Z",
)


@pytest.fixture(autouse=True)
def _clock(database_url: str) -> Iterator[None]:
    with told(database_url, BEFORE_CLOSE):
        yield


def work(host: Host) -> tuple[bool, ScriptedEngine]:
    """As a worker whose every second takes 0.1 s."""
    engine = ScriptedEngine(before={n: lambda: time.sleep(0.1) for n in range(12)})
    station = Station(host.settings, engine=engine, database=host.database)
    return station.work(), engine


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
