"""The engine of the fault tests: rehearsal that writes down each call and strikes where planned.

The registry knows it only where OMNAI_TEST_ENGINE names it. It is made in the process that owns
the engine, so that this is also where that process's other points are set.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import event, orm

import pipeline.run
import worker.station
from pipeline import heartbeat
from pipeline.engine.registry import TEST_ENGINE
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.engine.session import Session
from pipeline.ledger import claims, epochs, jobs, units
from pipeline.ledger.claims import Claimed
from pipeline.ledger.epochs import EpochKey
from pipeline.records import EngineInfo, Reply, SessionContext, Unit
from pipeline.settings import Settings
from tests.faults import plan, scripted

NAME = "tests.faults.engine:make"
REFUSING = "tests.faults.engine:refuse"

STAMP_S = 0.3
SETTLE_PAUSE_S = 0.2


class FaultyEngine(RehearsalEngine):
    is_lost = False

    def __init__(self, card: Path) -> None:
        super().__init__()
        self._card = card

    def describe(self) -> EngineInfo:
        return EngineInfo(name=TEST_ENGINE, revision="1", device="cpu", settings={})

    def open(self, context: SessionContext) -> Session:
        session: Any = super().open(context)
        plan.write("open", **_running())
        feed = session._feed

        def watched(unit: Unit | None, *, sequence: int) -> Reply:
            with self._card.open("a") as card:
                try:
                    fcntl.flock(card, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    plan.write("collision", sequence=sequence, **_running())
                plan.write("entry", sequence=sequence, **_running())
                try:
                    plan.reach("in_unit", sequence)
                except (MemoryError, plan.DeviceOutOfMemory):
                    self.is_lost = True
                    raise
                time.sleep(plan.read().get("unit_s", 0))
                reply: Reply = feed(unit, sequence=sequence)
                plan.write("exit", sequence=sequence, **_running())
                return reply

        session._feed = watched
        return session  # type: ignore[no-any-return]


_claimed: EpochKey | None = None


def _running() -> dict[str, Any]:
    assert _claimed is not None
    return {"job": _claimed.job_id, "epoch": _claimed.number}


def make() -> FaultyEngine:
    settings = Settings.from_environment()
    _set_points()
    plan.write("load")
    return FaultyEngine(settings.data_dir / f"card-{settings.host_name}-{settings.slot}")


def refuse() -> FaultyEngine:
    plan.write("load")
    raise RuntimeError("no driver")


def _set_points() -> None:
    """Around what the loop calls; the calls themselves are the product's."""
    worker.station.SETTLE_PAUSE_S = SETTLE_PAUSE_S
    worker.station.MediaChild = scripted.open_media  # type: ignore[assignment, misc]
    beat: Any = heartbeat.Heartbeat.__init__
    beat.__kwdefaults__["interval_s"] = STAMP_S
    claim, record, finish = claims.claim, units.record, jobs.finish
    stamp_alive = epochs.stamp_alive
    storing: list[int] = []
    """The unit that the loop's thread is writing; the threads beside it commit now and then."""
    loop = threading.get_ident()

    def watched_claim(*given: Any, **named: Any) -> Claimed | None:
        global _claimed
        while plan.read().get("is_held"):
            time.sleep(0.05)
        found = claim(*given, **named)
        if found is None:
            plan.write("nothing")
        else:
            _claimed = found.key
            pipeline.run.OUTAGE_S = plan.read().get("outage_s", 60.0)
            plan.write("claim", **_running())
            plan.reach("after_claim")
        return found

    def watched_record(*given: Any, **named: Any) -> bool:
        sequence = named["reply"].sequence
        plan.reach("before_unit_commit", sequence)
        storing.append(sequence)
        try:
            is_asked = record(*given, **named)
        finally:
            storing.clear()
        plan.reach("after_unit_commit", sequence)
        plan.write("stored", sequence=sequence, **_running())
        return is_asked

    @event.listens_for(orm.Session, "before_commit")
    def before_commit(session: orm.Session) -> None:
        if storing and threading.get_ident() == loop:
            plan.reach("in_unit_transaction", storing[-1])

    def quiet_stamp(*given: Any) -> bool:
        with plan.quiet:
            return stamp_alive(*given)

    epochs.stamp_alive = quiet_stamp
    claims.claim = watched_claim
    units.record = watched_record
    jobs.finish = _around("finish", finish)


def _around(name: str, call: Callable[..., Any]) -> Any:
    def watched(*given: Any, **named: Any) -> Any:
        plan.reach(f"before_{name}")
        outcome = call(*given, **named)
        plan.write(name, state=outcome.value, **_running())
        plan.reach(f"after_{name}")
        return outcome

    return watched
