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

UNIT_S = "OMNAI_TEST_UNIT_S"
"""How long each unit takes."""
STALL_AT = "OMNAI_TEST_STALL_AT"
"""The sequence in which an engine of epoch 1 hangs."""
DIARY = "OMNAI_TEST_DIARY"
"""Where each call is written down, one line of JSON."""


class StagedEngine(RehearsalEngine):
    def describe(self) -> EngineInfo:
        return EngineInfo(name=TEST_ENGINE, revision="1", device="cpu", settings={})

    def open(self, context: SessionContext) -> Session:
        session: Any = super().open(context)
        write("open", prompt=context.prompt)
        feed = session._feed

        def staged(unit: Unit | None, *, sequence: int) -> Reply:
            write("feed", sequence=sequence)
            time.sleep(float(os.environ.get(UNIT_S, "0")))
            if sequence == int(os.environ.get(STALL_AT, "-1")):
                time.sleep(600)
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
