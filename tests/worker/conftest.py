"""Worker hosts for tests: a database and a queue of their own, and processes that really die."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from omnai.services import sockets
from omnai.services.valkey import Valkey
from pipeline.engine.registry import TEST_ENGINE, TEST_ENGINE_VARIABLE
from pipeline.files import write_whole
from pipeline.ledger import claims, epochs
from pipeline.ledger.database import connect
from pipeline.ledger.epochs import UnreleasedEpoch
from pipeline.records import Dossier
from pipeline.settings import PhaseLimits, Settings
from tests.hosts import WorkerHost, in_use, until
from tests.worker import staged

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"
SAMPLE_SHA256 = hashlib.sha256(SAMPLE.read_bytes()).hexdigest()


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
class Host(WorkerHost):
    """One over the shipped sample, with an engine that takes its time."""

    page: int = 0

    def submit(self, **given: Any) -> str:
        """A queued job over the shipped sample; no bell rings."""
        return self.ask(self.take_in(SAMPLE.read_bytes(), filename="sample.mp4"), **given)

    def pace(self, **pace: float) -> None:
        """How the engine goes on from its next unit (`staged.PACE`)."""
        write_whole(Path(self.environment[staged.PACE]), json.dumps(pace).encode())

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
        dossier = self.dossier(job_id)
        for epoch in dossier.epochs:
            kept = [unit.sequence for unit in dossier.units if unit.epoch == epoch.number]
            assert kept == list(range(len(kept)))
        return dossier

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
        module="tests.worker",
        environment={
            TEST_ENGINE_VARIABLE: staged.NAME,
            staged.DIARY: str(folder / "diary"),
            staged.PACE: str(folder / "pace"),
        },
    )
    host.pace()
    with in_use(host):
        yield host


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
