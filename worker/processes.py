"""Whether a process of this host is gone."""

from __future__ import annotations

import os
import time
from pathlib import Path

POLL_S = 0.05

ENDED = ("Z", "X")


def is_gone(pid: int) -> bool:
    """A process that has ended but is not yet collected by its parent counts as gone.

    Not while a thread of it is left: one inside a driver's call outlives the kill that ended the
    others, and the first thread, by which the system names the process, then looks ended.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    if _state(Path(f"/proc/{pid}")) not in ENDED:
        return False
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True
    return all(_state(thread) in (*ENDED, None) for thread in threads)


def is_gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_gone(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _state(folder: Path) -> str | None:
    """None where the system has no such files, or has them no more."""
    try:
        # The state follows the name, which is in brackets and may hold anything.
        return (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
