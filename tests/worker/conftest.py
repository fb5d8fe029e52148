"""Worker hosts for tests: a database and a queue of their own, and processes that really die."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from omnai.services import sockets
from omnai.services.valkey import Valkey
from pipeline.engine.registry import TEST_ENGINE, TEST_ENGINE_VARIABLE
from pipeline.ledger import briefs, claims, epochs, jobs, recordings, submissions
from pipeline.ledger.blobs import BlobStore
from pipeline.ledger.database import Database, connect
from pipeline.records import JobState, Options, Request
from pipeline.settings import PhaseLimits, Settings
from tests import units
from tests.worker import staged

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"

T = TypeVar("T")


def until(what: Callable[[], T], *, within_s: float = 40.0) -> T:
    """The first true answer; fails the test where none comes."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        answer = what()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"did not come within {within_s:g} s")


@dataclass
class Host:
    """One worker host: its settings, its supervisors, and what they left behind."""

    settings: Settings
    database: Database
    folder: Path
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    # --- what was asked

    def submit(self, **given: Any) -> str:
        """A queued job over the shipped sample; no bell rings."""
        engine = given.pop("engine", TEST_ENGINE)
        digest = hashlib.sha256(SAMPLE.read_bytes()).hexdigest()
        blobs = BlobStore(self.settings.data_dir / "blobs")
        upload = recordings.begin_upload(self.database, owner="ann", filename="sample.mp4")
        blobs.begin(upload).write_bytes(SAMPLE.read_bytes())
        recordings.name_upload(
            self.database, upload, sha256=digest, size_bytes=SAMPLE.stat().st_size
        )
        blobs.commit(upload, digest)
        recording = recordings.finish_upload(
            self.database,
            upload,
            sha256=digest,
            size_bytes=SAMPLE.stat().st_size,
            probe=None,
        )
        return submissions.submit(
            self.database,
            owner="ann",
            recording=recording,
            request=Request(
                objective="Look.",
                title=None,
                event_date=None,
                engine=engine,
                options=Options(**given),
            ),
            portfolio_holdings=units.HOLDINGS,
            portfolio_sha256="0" * 64,
            engine=engine,
        )

    # --- what runs

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        with (self.folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker"],
                cwd=SAMPLE.parents[1],
                env=os.environ | self.settings.to_environment() | self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def log(self) -> str:
        return (self.folder / "supervisor.log").read_text()

    def diary(self) -> list[dict[str, Any]]:
        path = Path(self.environment[staged.DIARY])
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def fed(self) -> list[int]:
        return [entry["sequence"] for entry in self.diary() if entry["event"] == "fed"]

    def end_all(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pids(self) -> list[int]:
        """Every process that still carries this host's data folder in its environment."""
        mark = f"OMNAI_DATA_DIR={self.settings.data_dir}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    # --- what came of it

    def state(self, job_id: str) -> JobState:
        return jobs.state_of(self.database, job_id)

    def await_state(self, job_id: str, *states: JobState, within_s: float = 40.0) -> JobState:
        def reached() -> JobState | None:
            state = self.state(job_id)
            return state if state in states else None

        try:
            return until(reached, within_s=within_s)
        except AssertionError:
            raise AssertionError(f"{self.state(job_id)}; log:\n{self.log()}") from None

    def brief(self, job_id: str) -> dict[str, Any]:
        stored = until(lambda: briefs.latest(self.database, job_id))
        found: dict[str, Any] = json.loads(stored.document)
        return found

    def held(self) -> int:
        return len(epochs.unreleased(self.database))

    def waiting(self) -> int:
        return claims.waiting(self.database, engine=None)


@pytest.fixture
def make_host(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def make(**changes: Any) -> Host:
        settings = Settings(
            data_dir=tmp_path / "data",
            database_url=database_url,
            redis_url=valkey_url,
            host_name="host",
            engine=TEST_ENGINE,
            stale_s=20.0,
            phase_limits=PhaseLimits(unit=30.0),
        )
        host = Host(
            settings=replace(settings, **changes),
            database=connect(database_url),
            folder=tmp_path,
            environment={
                TEST_ENGINE_VARIABLE: staged.NAME,
                staged.DIARY: str(tmp_path / "diary"),
            },
        )
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.end_all()
        host.database.dispose()


@pytest.fixture
def host(make_host: Callable[..., Host]) -> Host:
    return make_host()


@pytest.fixture
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """A server of this test alone, which it may stop, fill and start again."""
    root = tmp_path_factory.mktemp("valkey")
    folder = sockets.folder_of(root)
    sockets.prepare(folder)
    server = Valkey(root, folder, is_durable=False)
    server.start()
    yield server
    server.stop()
