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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from omnai.services import sockets
from omnai.services.valkey import Valkey
from pipeline.engine.registry import TEST_ENGINE, TEST_ENGINE_VARIABLE
from pipeline.files import write_whole
from pipeline.ledger import briefs, claims, dossiers, epochs, jobs, recordings, submissions, views
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.ledger.storage import open_storage
from pipeline.records import Dossier, JobState, Options, Request
from pipeline.settings import PhaseLimits, Settings
from tests import units
from tests.worker import staged

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"
SAMPLE_SHA256 = hashlib.sha256(SAMPLE.read_bytes()).hexdigest()

T = TypeVar("T")


def until(what: Callable[[], T], *, within_s: float = 60.0) -> T:
    """The first true answer; fails the test where none comes."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        answer = what()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"did not come within {within_s:g} s")


def check(settings: Settings, **variables: str) -> tuple[int, str]:
    """What `omnai worker --check` exits with and says."""
    asked = CliRunner().invoke(
        app, ["worker", "--check"], env=settings.to_environment() | variables
    )
    return asked.exit_code, asked.stdout


def children(pid: int) -> dict[int, str]:
    """Processes that this one has started, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if parent == pid:
            found[int(entry.name)] = command
    return found


@dataclass
class Host:
    """One worker host: its settings, its supervisors, and what they left behind."""

    settings: Settings
    database: Database
    folder: Path
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    page: int = 0

    # --- what was asked

    def submit(self, **given: Any) -> str:
        """A queued job over the shipped sample; no bell rings."""
        engine = given.pop("engine", TEST_ENGINE)
        blobs = open_storage(self.settings).blobs
        upload = recordings.begin_upload(self.database, owner="ann", filename="sample.mp4")
        blobs.begin(upload).write_bytes(SAMPLE.read_bytes())
        recordings.name_upload(
            self.database, upload, sha256=SAMPLE_SHA256, size_bytes=SAMPLE.stat().st_size
        )
        blobs.commit(upload, SAMPLE_SHA256)
        recording = recordings.finish_upload(
            self.database,
            upload,
            sha256=SAMPLE_SHA256,
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

    def cancel_all(self) -> None:
        jobs_page, _ = views.page(self.database, owner=None, state=None, after=None, limit=100)
        for job in jobs_page:
            if job.state not in jobs.ENDED:
                jobs.request_cancel(self.database, job.id)

    # --- what runs

    def pace(self, **pace: float) -> None:
        """How the engine goes on from its next unit (`staged.PACE`)."""
        write_whole(Path(self.environment[staged.PACE]), json.dumps(pace).encode())

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker"],
                cwd=SAMPLE.parents[1],
                env=os.environ | self.settings.to_environment() | self.environment,
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
        """What the engine has written down since the last `turn_page`."""
        path = Path(self.environment[staged.DIARY])
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()[self.page :]]

    def turn_page(self) -> None:
        self.page += len(self.diary())

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

    def await_state(self, job_id: str, *states: JobState, within_s: float = 60.0) -> JobState:
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

    def running(self, *, units: int = 3) -> UnreleasedEpoch:
        """The running epoch, once the engine has answered so many units."""
        until(lambda: len(self.fed()) >= units)
        (epoch,) = epochs.unreleased(self.database)
        return epoch

    def loaded(self) -> dict[str, int]:
        return {
            "loads": sum(entry["event"] == "load" for entry in self.diary()),
            "opens": sum(entry["event"] == "open" for entry in self.diary()),
        }

    def ended(self, job_id: str) -> Dossier:
        """The job's rows, in which no unit is missing."""
        dossier = dossiers.load(self.database, job_id)
        for epoch in dossier.epochs:
            kept = [unit.sequence for unit in dossier.units if unit.epoch == epoch.number]
            assert kept == list(range(len(kept)))
        return dossier

    def held(self) -> int:
        return len(epochs.unreleased(self.database))

    def waiting(self) -> int:
        return claims.waiting(self.database, engine=None)


@contextmanager
def opened_host(folder: Path, **settings: Any) -> Iterator[Host]:
    """A host of which nothing is left afterwards; nothing runs yet."""
    given: dict[str, Any] = {
        "data_dir": folder / "data",
        "host_name": "host",
        "engine": TEST_ENGINE,
    }
    limits: dict[str, Any] = {"stale_s": 20.0, "phase_limits": PhaseLimits(unit=30.0)}
    host = Host(
        settings=Settings(**(given | limits | settings)),
        database=connect(settings["database_url"]),
        folder=folder,
        environment={
            TEST_ENGINE_VARIABLE: staged.NAME,
            staged.DIARY: str(folder / "diary"),
            staged.PACE: str(folder / "pace"),
        },
    )
    host.pace()
    try:
        yield host
    finally:
        host.end_all()
        host.database.dispose()


@pytest.fixture
def make_host(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    with ExitStack() as opened:

        def make(**changes: Any) -> Host:
            given = {"database_url": database_url, "redis_url": valkey_url}
            return opened.enter_context(opened_host(tmp_path, **(given | changes)))

        yield make


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
