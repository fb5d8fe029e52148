"""`omnai ingest` as a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from omnai.cli import app
from omnai.exits import Exit
from pipeline.settings import Settings


def test_it_does_not_start_where_links_are_off(
    database_url: str, valkey_url: str, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, database_url=database_url, redis_url=valkey_url)
    asked = CliRunner().invoke(app, ["ingest"], env=settings.to_environment())
    assert asked.exit_code == Exit.BAD_INPUT
    assert "OMNAI_FETCH_URLS" in asked.stderr


def test_it_runs_until_it_is_told_to_leave(
    database_url: str, valkey_url: str, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, database_url=database_url, redis_url=valkey_url)
    log = tmp_path / "ingest.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnai", "ingest"],
            env=os.environ | replace(settings, fetch_urls=True).to_environment(),
            stdout=said,
            stderr=said,
        )
    deadline = time.monotonic() + 60
    while "Links are fetched." not in log.read_text() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == Exit.DONE, log.read_text()
