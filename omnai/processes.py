"""The API and the worker as processes that a command starts and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

from pipeline.settings import Settings

ROOT = Path(__file__).resolve().parents[1]

THREADS_FOR_OTHERS = 16
"""Waiting requests hold a thread each, and the others need some too."""

GRACE_S = 150.0
"""Longer than the worker's longest unit, whose end is waited for."""


def api_command(settings: Settings) -> list[str]:
    """One process, because one watcher serves all of its waiting requests."""
    threads = settings.waiters_max + THREADS_FOR_OTHERS
    return [
        *(sys.executable, "-m", "gunicorn", "api.wsgi:app", "--bind", settings.bind),
        *("--workers", "1", "--worker-class", "gthread", "--threads", str(threads)),
        # An upload may take hours: no request is ended by the clock. The log tells no query.
        *("--timeout", "0", "--graceful-timeout", "30", "--log-level", "warning"),
        *("--worker-tmp-dir", str(settings.data_dir)),
    ]


def worker_command() -> list[str]:
    return [sys.executable, "-m", "omnai", "worker"]


def environment(settings: Settings) -> dict[str, str]:
    """This process's environment with these settings."""
    return {**os.environ, **settings.to_environment()}


class Child:
    """A process of ours in a session of its own; signals to this process are passed on to it."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=dict(variables), cwd=ROOT, start_new_session=True
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
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """Until it ends by itself, or Ctrl-C or SIGTERM ends it."""

        def pass_on(number: int, frame: FrameType | None) -> None:
            self._process.send_signal(signal.SIGTERM)

        assert threading.current_thread() is threading.main_thread()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)
        return self._process.wait()

    def end(self) -> None:
        """Ask it to go and wait; kill what stays. Idempotent."""
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
