"""Real worker processes on a database and a queue, and what tests ask of every such host."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pipeline.engine.registry import TEST_ENGINE
from pipeline.ledger import briefs, dossiers, epochs, jobs, recordings, submissions, views
from pipeline.ledger.database import Database
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.recordings import Recording
from pipeline.ledger.storage import open_storage
from pipeline.records import Dossier, JobState, Options, Request
from pipeline.settings import Settings
from tests import units

ROOT = Path(__file__).resolve().parents[1]

OWNER = "ann"

T = TypeVar("T")
HostT = TypeVar("HostT", bound="WorkerHost")


def until(what: Callable[[], T], *, within_s: float = 60.0) -> T:
    """The first true answer; fails the test where none comes."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        answer = what()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"did not come within {within_s:g} s")


@dataclass
class WorkerHost:
    """Its settings, its supervisors, and what they left behind."""

    settings: Settings
    database: Database
    folder: Path
    environment: dict[str, str]
    module: str
    """The supervisor's."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    # --- what was asked

    def take_in(self, content: bytes, *, filename: str = "call.mp4") -> Recording:
        digest = hashlib.sha256(content).hexdigest()
        blobs = open_storage(self.settings).blobs
        upload = recordings.begin_upload(self.database, owner=OWNER, filename=filename)
        blobs.begin(upload).write_bytes(content)
        recordings.name_upload(self.database, upload, sha256=digest, size_bytes=len(content))
        blobs.commit(upload, digest)
        return recordings.finish_upload(
            self.database, upload, sha256=digest, size_bytes=len(content), probe=None
        )

    def ask(self, recording: Recording, *, engine: str = TEST_ENGINE, **options: Any) -> str:
        """A queued job; no bell rings."""
        return submissions.submit(
            self.database,
            owner=OWNER,
            recording=recording,
            request=Request(
                objective="Look.",
                title=None,
                event_date=None,
                engine=engine,
                options=Options(**options),
            ),
            portfolio_holdings=units.HOLDINGS,
            portfolio_sha256="0" * 64,
            engine=engine,
        )

    def cancel_all(self) -> None:
        found, _ = views.page(self.database, owner=None, state=None, after=None, limit=100)
        for job in found:
            if job.state not in jobs.ENDED:
                jobs.request_cancel(self.database, job.id)

    # --- what runs

    def mark(self) -> tuple[str, str]:
        """What every process of this host has in its environment, and no other."""
        return "OMNAI_DATA_DIR", str(self.settings.data_dir)

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
        mark = "{}={}\0".format(*self.mark()).encode()
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

    def brief(self, job_id: str) -> dict[str, Any]:
        stored = until(lambda: briefs.latest(self.database, job_id))
        found: dict[str, Any] = json.loads(stored.document)
        return found

    def held(self) -> int:
        return len(epochs.unreleased(self.database))


@contextmanager
def in_use(host: HostT) -> Iterator[HostT]:
    """Nothing is left of it afterwards."""
    try:
        yield host
    finally:
        host.end()
        host.database.dispose()
