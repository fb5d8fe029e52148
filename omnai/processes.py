"""The API and the worker as processes that a command starts and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

from pipeline.settings import Settings

ROOT = Path(__file__).resolve().parents[1]

THREADS_FOR_OTHERS = 16
"""Requests that wait, for a change or to be taken in, hold a thread each; the others need some."""

REQUEST_LINE_BYTES = 8190
"""The longest that gunicorn can be told to take: a cursor and filters fit, and are refused by us
with a code where they are too long."""

GRACEFUL_S = 30
"""What a request that is being answered may take when the API is told to go."""

GRACE_S = 150.0
"""Longer than the worker's longest unit, whose end is waited for."""


def api_command(settings: Settings, *, graceful_s: int = GRACEFUL_S) -> list[str]:
    """One process, because one watcher and one admission serve all of its waiting requests."""
    intake = settings.intake_max + settings.intake_waiting_max
    threads = settings.waiters_max + intake + THREADS_FOR_OTHERS
    return [
        *(sys.executable, "-m", "gunicorn", "api.wsgi:app", "--bind", settings.bind),
        *("--workers", "1", "--worker-class", "gthread", "--threads", str(threads)),
        # An upload may take hours: no request is ended by the clock. The log tells no query.
        *("--timeout", "0", "--graceful-timeout", str(graceful_s), "--log-level", "warning"),
        *("--logger-class", "api.gunicorn_log.GunicornLog"),
        *("--limit-request-line", str(REQUEST_LINE_BYTES)),
        *("--worker-tmp-dir", str(settings.data_dir)),
    ]


def worker_command() -> list[str]:
    return [sys.executable, "-m", "omnai", "worker"]


def ingest_command() -> list[str]:
    return [sys.executable, "-m", "omnai", "ingest"]


def environment(settings: Settings) -> dict[str, str]:
    """This process's environment with these settings."""
    return {**os.environ, **settings.to_environment()}


class Child:
    """A process of ours in a session of its own: a terminal's Ctrl-C is the parent's to answer.

    With `log` its output goes to that file, which begins anew.
    """

    def __init__(
        self, name: str, command: Sequence[str], variables: Mapping[str, str], *, log: Path | None
    ) -> None:
        self.name = name
        self.log = log
        with ExitStack() as opened:
            output = None if log is None else opened.enter_context(_private(log))
            self._process = subprocess.Popen(
                command,
                env=dict(variables),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def status(self) -> int | None:
        """Its exit status; none while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def ask_to_end(self) -> None:
        if self.status is None:
            self._process.terminate()

    def end(self) -> None:
        """Ask it to go and wait; kill what stays. Idempotent."""
        self.ask_to_end()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _private(path: Path) -> IO[bytes]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
