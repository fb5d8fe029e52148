"""An engine for real worker processes: rehearsal that takes its time, and stalls where told to.

The registry knows it only where OMNAI_TEST_ENGINE names it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pipeline.engine.registry import TEST_ENGINE
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.engine.session import Session
from pipeline.records import EngineInfo, Reply, SessionContext, Unit

NAME = "tests.worker.staged:make"

PACE = "OMNAI_TEST_PACE"
"""A file of JSON that is read at every unit: how long it takes (`unit_s`), and the sequence in
which the engine hangs (`stall_at`) or breaks for good (`break_at`)."""
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
            pace = json.loads(Path(os.environ[PACE]).read_text())
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
    return StagedEngine()


def write(event: str, **facts: Any) -> None:
    path = os.environ.get(DIARY)
    if path is not None:
        line = json.dumps({"event": event, "pid": os.getpid(), "at": time.time(), **facts})
        with Path(path).open("a") as file:
            file.write(f"{line}\n")
