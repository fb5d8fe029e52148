"""One server process: started in a session of its own, found again by its locked run file."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from omnai.services.errors import ServiceFailed
from omnai.services.lock import POLL_S, opened, try_lock

LAUNCHER = Path(__file__).with_name("launcher.py")
LOG_KEPT_BYTES = 1_000_000
LOG_SHOWN_LINES = 12
LAUNCH_S = 30.0

SERVER_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""Nothing of the caller's: `PG…`, `LD_LIBRARY_PATH` and locales change how a server behaves."""

NOBODY = "nobody"
"""Whom root's PostgreSQL runs as: an account that every system has."""


class Server:
    """A server by its run file (`NAME.run`, locked while it lives) and its log in a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.run_file = folder / f"{name}.run"
        self.log_file = folder / f"{name}.log"
        self._log_start = 0

    def is_running(self) -> bool:
        try:
            descriptor = os.open(self.run_file, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def pid(self) -> int | None:
        if not self.is_running():
            return None
        text = self.run_file.read_text()
        return int(text) if text.strip() else None

    def launch(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        user: str = "",
        environment: Mapping[str, str] = SERVER_ENVIRONMENT,
    ) -> None:
        """Start `command` in `folder`; it may not be ready yet, and may fail right after."""
        self._log_start = self._log_bytes()
        if self._log_start > LOG_KEPT_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
            self._log_start = 0
        launched = subprocess.run(
            [sys.executable, "-I", "-S", LAUNCHER, self.run_file, self.log_file, user, *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is not for the servers
            timeout=LAUNCH_S,
            check=False,
        )
        if launched.returncode != 0:
            raise ServiceFailed(self.name, "it could not be started.", log=_tail(launched.stderr))

    def failed(self, reason: str) -> ServiceFailed:
        """The error with the end of what the server has said since it was launched."""
        log = self.log_file.read_bytes()[self._log_start :] if self._log_bytes() else b""
        return ServiceFailed(self.name, f"{reason} From {self.log_file}:", log=_tail(log))

    def stop(self, signals: Sequence[tuple[signal.Signals, float]]) -> None:
        """Send each signal in turn, with a wait after it, until server and children are gone."""
        for number, wait_s in signals:
            pid = self.pid()
            if pid is None:
                break
            with suppress(ProcessLookupError):  # children are left, which end by themselves
                os.kill(pid, number)
            if self._ends_within(wait_s):
                break
        else:
            raise self.failed("it does not stop.")
        with opened(self.run_file) as descriptor:
            os.ftruncate(descriptor, 0)

    def _log_bytes(self) -> int:
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def _ends_within(self, wait_s: float) -> bool:
        deadline = time.monotonic() + wait_s
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-LOG_SHOWN_LINES:])
