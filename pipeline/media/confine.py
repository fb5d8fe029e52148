"""What the media process takes from itself before it opens hostile bytes."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading

from pipeline.settings import MediaLimits

CPU_GRACE_S = 5
"""The soft limit's SIGXCPU tells the loop why; at an equal hard limit Linux sends SIGKILL first."""


def apply_limits(limits: MediaLimits) -> None:
    """Bound address space and processor time; no core file, no file written."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CPU, limits.cpu_s, CPU_GRACE_S)
    if sys.platform == "linux":  # macOS ignores or refuses an address-space limit
        _lower(resource.RLIMIT_AS, limits.memory_bytes)


def _lower(which: int, value: int, grace: int = 0) -> None:
    _, hard = resource.getrlimit(which)
    ceiling = value + grace
    if hard != resource.RLIM_INFINITY:
        ceiling = min(ceiling, hard)
    resource.setrlimit(which, (min(value, ceiling), ceiling))


def leave_with_parent() -> None:
    """End this process as soon as the other end of standard input closes, however that happens."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def take_output() -> int:
    """The pipe to the loop; afterwards nothing that prints can reach it."""
    pipe = os.dup(1)
    os.set_inheritable(pipe, False)
    os.dup2(2, 1)
    return pipe
