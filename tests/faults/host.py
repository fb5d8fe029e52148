"""One worker host of a fault test: real processes, a plan for what befalls them, their diary."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from pipeline.engine.registry import TEST_ENGINE, TEST_ENGINE_VARIABLE
from pipeline.files import write_whole
from pipeline.ledger import epochs
from pipeline.ledger.database import connect
from pipeline.ledger.epochs import EpochKey, UnreleasedEpoch
from pipeline.ledger.recordings import Recording
from pipeline.settings import PhaseLimits, Settings
from tests.faults import engine, plan, scripted
from tests.faults.invariants import Diary, Report, measure
from tests.hosts import ROOT, WorkerHost, in_use, until

STALE_S = 5.0
"""The lease: a dozen stamps of the doubles fit into it."""

UNIT_LIMIT_S = 20.0
"""Longer than a database's restart on a busy machine."""

UNKILLABLE = "OMNAI_TEST_FAULTS_UNKILLABLE"
"""Has the watchdog's kill do nothing, as for a process inside a driver's call."""


@dataclass
class Host(WorkerHost):
    """One that a plan befalls, over recordings that need no decoder."""

    faults: int = 0
    page: int = 0

    # --- what was asked

    def upload(self, count: int = 6) -> Recording:
        """A recording of so many units."""
        return self.take_in(scripted.recording(count))

    def submit(self, count: int = 6, **options: Any) -> str:
        """A queued job over a recording of so many units; no bell rings."""
        return self.ask(self.upload(count), **options)

    # --- what befalls it

    def plan(self, **given: Any) -> None:
        """See `tests.faults.plan`; each plan's fault strikes once."""
        self.faults += 1
        content = json.dumps({**given, "number": self.faults}).encode()
        write_whole(Path(self.environment[plan.PLAN]), content)

    def mark(self) -> tuple[str, str]:
        """Some hosts share a data folder."""
        return plan.PLAN, self.environment[plan.PLAN]

    # --- what came of it

    def log_of(self, key: EpochKey) -> list[str]:
        """What the process that ran it wrote from its claim to its next one, and what nobody
        signed meanwhile; of a log of JSON."""
        told: list[str] = []
        pid = None
        for line in self.log().splitlines():
            said = _read(line)
            if said.get("action") == "claim":
                if (said["job_id"], said["epoch"]) == (key.job_id, key.number):
                    pid = said["pid"]
                elif said["pid"] == pid:
                    break
            if pid is not None and said.get("pid", pid) == pid:
                told.append(line)
        return told

    def diary(self) -> Diary:
        return Diary.read(Path(self.environment[plan.DIARY]))

    def events(self, event: str, job_id: str | None = None) -> list[dict[str, Any]]:
        """Since the last `turn_page`."""
        return [
            entry
            for entry in self.diary().entries[self.page :]
            if entry["event"] == event and job_id in (None, entry.get("job"))
        ]

    def turn_page(self) -> None:
        self.page = len(self.diary().entries)

    def await_loaded(self, count: int = 1) -> int:
        """The process that owns the engine."""

        def is_loaded() -> bool:
            assert self.processes[-1].poll() is None, self.log()
            return len(self.events("load")) >= count

        until(is_loaded, within_s=90)
        return int(self.events("load")[-1]["pid"])

    def await_fault(self) -> dict[str, Any]:
        return until(lambda: self.events("fault"))[-1]

    def await_entries(self, job_id: str, count: int = 1) -> UnreleasedEpoch:
        """The job's epoch, once the engine was given so many units."""
        try:
            until(lambda: len(self.events("entry", job_id)) >= count)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.state(job_id)}; log:\n{self.log()}") from None
        return next(e for e in epochs.unreleased(self.database) if e.key.job_id == job_id)

    def units(self, job_id: str) -> list[int]:
        return [unit.sequence for unit in self.dossier(job_id).units]

    def reasons(self, job_id: str) -> list[str | None]:
        """Why the job's epochs ended."""
        return [epoch.end_reason for epoch in self.dossier(job_id).epochs]

    def bells(self) -> int:
        """However the lists of bells are named."""
        assert self.settings.redis_url is not None
        with redis.Redis.from_url(self.settings.redis_url) as client:
            names = [name for name in client.keys("omnai*") if client.type(name) == b"list"]
            return sum(client.llen(name) for name in names)

    def await_silence(self, answers: int = 0) -> None:
        """Until no bell is left and so many of them have found nothing to do."""
        until(lambda: self.bells() == 0 and len(self.events("nothing")) >= answers)

    def measure(self) -> Report:
        return measure(self.database, self.diary(), stale_s=self.settings.stale_s)

    def check(self, *, within_s: float = 30.0) -> Report:
        """All invariants hold, those about rest at the latest so much later."""
        with suppress(AssertionError):  # the report says more
            until(lambda: not self.measure().broken(), within_s=within_s)
        report = self.measure()
        assert not report.broken(), "\n".join([*report.broken(), self.log()])
        return report


@contextmanager
def opened_host(
    folder: Path, *, diary: Path | None = None, module: str = "tests.faults", **settings: Any
) -> Iterator[Host]:
    """A host of which nothing is left afterwards; nothing runs yet."""
    given: dict[str, Any] = {
        "data_dir": folder / "data",
        "host_name": "host",
        "engine": TEST_ENGINE,
        "stale_s": STALE_S,
        "free_bytes_min": 0,
        "phase_limits": PhaseLimits(unit=UNIT_LIMIT_S, drain=UNIT_LIMIT_S),
    }
    folder.mkdir(exist_ok=True)
    host = Host(
        settings=Settings(**(given | settings)),
        database=connect(settings["database_url"]),
        folder=folder,
        module=module,
        environment={
            TEST_ENGINE_VARIABLE: engine.NAME,
            plan.DIARY: str(diary or folder / "diary"),
            plan.PLAN: str(folder / "plan"),
        },
    )
    host.plan()
    with in_use(host):
        yield host


def _read(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:  # a library that writes as it likes
        return {}
    return found if isinstance(found, dict) else {}


def site() -> dict[str, str]:
    """Has Python import `tests.faults.site` at the start of each process."""
    return {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests/faults/site"), str(ROOT)])}
