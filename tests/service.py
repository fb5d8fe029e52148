"""The API and a worker as the processes that `omnai` starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from pipeline.settings import Settings


@contextmanager
def running(command: str, settings: Settings, folder: Path) -> Iterator[None]:
    """`omnai COMMAND` as a process, until the block ends."""
    with (folder / f"{command}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnai", command],
            env=os.environ | settings.to_environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, (folder / f"{command}.log").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_ready(http: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if http.get("/readyz").is_success:
                return
        time.sleep(0.1)
    pytest.fail("the API was not ready within 60 s")
