"""An `omnai analyze` that is killed, and who brings its job to rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnai.stores import clear_killed
from pipeline.ledger import briefs, dossiers, epochs, jobs
from pipeline.ledger.database import Database, connect
from pipeline.records import JobState
from pipeline.settings import Settings
from tests.hosts import until
from tests.processes import needs_proc
from tests.worker.conftest import SAMPLE

pytestmark = needs_proc

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database_url, data_dir=tmp_path / "data", host_name="here")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = connect(database_url)
    yield opened
    opened.dispose()


def analyze(settings: Settings, out: Path, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "omnai", "analyze", str(SAMPLE), "--out", str(out)),
            *("--portfolio", str(SAMPLE.parent / "portfolio.json"), "--objective", "Look.", *more),
        ],
        cwd=ROOT,
        env=os.environ | settings.to_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def killed(settings: Settings, database: Database, out: Path) -> str:
    """The job of a run that was killed after some of its seconds."""
    process = analyze(settings, out)
    (epoch,) = until(lambda: epochs.unreleased(database))
    until(lambda: dossiers.load(database, epoch.key.job_id).units)
    process.kill()
    process.wait()
    assert jobs.state_of(database, epoch.key.job_id) is JobState.RUNNING
    return epoch.key.job_id


def at_rest(database: Database, job_id: str) -> bool:
    dossier = dossiers.load(database, job_id)
    (epoch,) = dossier.epochs
    brief = briefs.latest(database, job_id)
    assert brief is not None
    assert (dossier.state, epoch.end_reason) == (JobState.FAILED, "worker_lost")
    assert brief.status == "partial"
    covered = json.loads(brief.document)["coverage"]["time"][0]["duration_ms"]
    assert covered == 1000 * len(dossier.units)
    return True


def test_the_next_analyze_brings_a_killed_ones_job_to_rest_and_leaves_a_live_one_alone(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    first = killed(settings, database, tmp_path / "first")
    second = analyze(settings, tmp_path / "second", "--start-s", "66")
    assert second.wait(timeout=120) == 0
    assert at_rest(database, first)
    assert epochs.unreleased(database) == ()

    third = analyze(settings, tmp_path / "third")
    (epoch,) = until(lambda: epochs.unreleased(database))
    clear_killed(settings)  # as `omnai serve` does when it begins
    assert third.wait(timeout=120) == 0
    assert jobs.state_of(database, epoch.key.job_id) is JobState.SUCCEEDED
