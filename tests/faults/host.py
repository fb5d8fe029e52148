"""One worker host of a fault test: real processes, a plan for what befalls them, their diary."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from pipeline.engine.registry import TEST_ENGINE, TEST_ENGINE_VARIABLE
from pipeline.files import write_whole
from pipeline.ledger import briefs, dossiers, epochs, jobs, recordings, submissions, views
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.recordings import Recording
from pipeline.ledger.storage import open_storage
from pipeline.records import Dossier, JobState, Options, Request
from pipeline.settings import PhaseLimits, Settings
from tests import units
from tests.faults import engine, plan, scripted
from tests.faults.invariants import Diary, Report, measure
from tests.worker.conftest import until

ROOT = Path(__file__).resolve().parents[2]

STALE_S = 5.0
"""The lease: a dozen stamps of the doubles fit into it."""

UNIT_LIMIT_S = 20.0
"""Longer than a database's restart on a busy machine."""

UNKILLABLE = "OMNAI_TEST_FAULTS_UNKILLABLE"
"""Has the watchdog's kill do nothing, as for a process inside a driver's call."""

OWNER = "ann"

ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED)


@dataclass
class Host:
    """Its settings, its supervisors, and what they left behind."""

    settings: Settings
    database: Database
    folder: Path
    environment: dict[str, str]
    module: str = "tests.faults"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    faults: int = 0
    page: int = 0

    # --- what was asked

    def upload(self, count: int = 6) -> Recording:
        """A recording of so many units."""
        content = scripted.recording(count)
        digest = hashlib.sha256(content).hexdigest()
        blobs = open_storage(self.settings).blobs
        upload = recordings.begin_upload(self.database, owner=OWNER, filename="call.mp4")
        blobs.begin(upload).write_bytes(content)
        recordings.name_upload(self.database, upload, sha256=digest, size_bytes=len(content))
        blobs.commit(upload, digest)
        return recordings.finish_upload(
            self.database, upload, sha256=digest, size_bytes=len(content), probe=None
        )

    def submit(self, count: int = 6, **options: Any) -> str:
        """A queued job over a recording of so many units; no bell rings."""
        return submissions.submit(
            self.database,
            owner=OWNER,
            recording=self.upload(count),
            request=Request(
                objective="Look.",
                title=None,
                event_date=None,
                engine=TEST_ENGINE,
                options=Options(**options),
            ),
            portfolio_holdings=units.HOLDINGS,
            portfolio_sha256="0" * 64,
            engine=TEST_ENGINE,
        )

    def cancel_all(self) -> None:
        found, _ = views.page(self.database, owner=None, state=None, after=None, limit=100)
        for job in found:
            if job.state not in ENDED:
                jobs.request_cancel(self.database, job.id)

    # --- what befalls it

    def plan(self, **given: Any) -> None:
        """See `tests.faults.plan`; each plan's fault strikes once."""
        self.faults += 1
        content = json.dumps({**given, "number": self.faults}).encode()
        write_whole(Path(self.environment[plan.PLAN]), content)

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        with (self.folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", self.module],
                cwd=ROOT,
                env=os.environ | self.settings.to_environment() | self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def pids(self) -> list[int]:
        """Every process that carries this host's plan in its environment."""
        mark = f"{plan.PLAN}={self.environment[plan.PLAN]}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def kill_all(self) -> None:
        """As a power cut, or a container's end after its grace."""
        # All at once: none may see another's end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        for process in self.processes:
            process.wait()
        until(lambda: self.pids() == [])

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
        self.kill_all()

    # --- what came of it

    def log(self) -> str:
        return (self.folder / "supervisor.log").read_text()

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

    def state(self, job_id: str) -> JobState:
        return jobs.state_of(self.database, job_id)

    def await_state(self, job_id: str, *states: JobState, within_s: float = 60.0) -> JobState:
        def reached() -> JobState | None:
            try:
                state = self.state(job_id)
            except DatabaseUnavailable:
                return None
            return state if state in states else None

        try:
            return until(reached, within_s=within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.state(job_id)}; log:\n{self.log()}") from None

    def dossier(self, job_id: str) -> Dossier:
        return dossiers.load(self.database, job_id)

    def units(self, job_id: str) -> list[int]:
        return [unit.sequence for unit in self.dossier(job_id).units]

    def reasons(self, job_id: str) -> list[str | None]:
        """Why the job's epochs ended."""
        return [epoch.end_reason for epoch in self.dossier(job_id).epochs]

    def brief(self, job_id: str) -> dict[str, Any]:
        stored = until(lambda: briefs.latest(self.database, job_id))
        found: dict[str, Any] = json.loads(stored.document)
        return found

    def bells(self) -> int:
        """However the lists of bells are named."""
        assert self.settings.redis_url is not None
        with redis.Redis.from_url(self.settings.redis_url) as client:
            names = [name for name in client.keys("omnai*") if client.type(name) == b"list"]
            return sum(client.llen(name) for name in names)

    def await_silence(self, answers: int = 0) -> None:
        """Until no bell is left and so many of them have found nothing to do."""
        until(lambda: self.bells() == 0 and len(self.events("nothing")) >= answers)

    def held(self) -> int:
        return len(epochs.unreleased(self.database))

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
    try:
        yield host
    finally:
        host.end()
        host.database.dispose()


def site() -> dict[str, str]:
    """Has Python import `tests.faults.site` at the start of each process."""
    return {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests/faults/site"), str(ROOT)])}
