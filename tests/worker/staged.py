"""An engine for real worker processes: rehearsal that takes its time, and stalls where told to.

The registry knows it only where OMNAI_TEST_ENGINE names it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pipeline.engine.minicpm.loading import ModelNotLoaded
from pipeline.engine.registry import TEST_ENGINE
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.engine.session import Session
from pipeline.records import EngineInfo, Reply, SessionContext, Unit
from worker import station

NAME = "tests.worker.staged:make"
REFUSING = "tests.worker.staged:make_or_refuse"

RELOADS_MAX = 1
"""How often `tests.worker` tries an engine again that had loaded."""

PACE = "OMNAI_TEST_PACE"
"""A file of JSON that is read at every unit: how long it takes (`unit_s`), and the sequence in
which the engine hangs (`stall_at`) or breaks for good (`break_at`). Also how long this process
takes for a brief (`publish_s`), and how often the engine refuses to load (`refusals`)."""
DIARY = "OMNAI_TEST_DIARY"
"""Where each call is written down, one line of JSON."""


class StagedEngine(RehearsalEngine):
    is_lost = False

    def describe(self) -> EngineInfo:
        return EngineInfo(name=TEST_ENGINE, revision="1", device="cpu", settings={})

    def open(self, context: SessionContext) -> Session:
        session: Any = super().open(context)
        write("open", prompt=context.prompt)
        feed = session._feed

        def staged(unit: Unit | None, *, sequence: int) -> Reply:
            write("feed", sequence=sequence)
            pace = _pace()
            time.sleep(pace.get("unit_s", 0))
            if sequence == pace.get("stall_at"):
                time.sleep(600)
            if sequence == pace.get("break_at"):
                self.is_lost = True
                raise RuntimeError("device lost")
            reply: Reply = feed(unit, sequence=sequence)
            write("fed", sequence=sequence)
            return reply

        session._feed = staged
        return session  # type: ignore[no-any-return]


def make() -> StagedEngine:
    write("load")
    publish = station.publish

    def staged(*given: Any, **more: Any) -> object:
        write("publish")
        time.sleep(_pace().get("publish_s", 0))
        return publish(*given, **more)

    station.publish = staged  # type: ignore[assignment]
    return StagedEngine()


def make_or_refuse() -> StagedEngine:
    """As under a driver that needs time after a kill: refuses until it has so many times."""
    past = Path(os.environ[DIARY]).read_text() if Path(os.environ[DIARY]).exists() else ""
    if past.count('"refuse"') < _pace().get("refusals", 0):
        write("refuse")
        raise ModelNotLoaded("torch finds no CUDA device; a GPU and its driver would be accepted")
    return make()


def _pace() -> dict[str, float]:
    pace: dict[str, float] = json.loads(Path(os.environ[PACE]).read_text())
    return pace


def write(event: str, **facts: Any) -> None:
    path = os.environ.get(DIARY)
    if path is not None:
        line = json.dumps({"event": event, "pid": os.getpid(), "at": time.time(), **facts})
        with Path(path).open("a") as file:
            file.write(f"{line}\n")
