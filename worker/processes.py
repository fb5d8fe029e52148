"""Whether a process of this host is gone."""

from __future__ import annotations

import os
import time
from pathlib import Path

POLL_S = 0.05


def is_gone(pid: int) -> bool:
    """A process that has ended but is not yet collected by its parent counts as gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        # The state follows the name, which is in brackets and may hold anything.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False  # no such files on this system
    return state in ("Z", "X")


def is_gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_gone(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
