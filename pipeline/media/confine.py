"""What the media process takes from itself before it opens hostile bytes."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from dataclasses import dataclass

from pipeline.media import landlock, seccomp
from pipeline.media.kernel import call, refuse_new_privileges
from pipeline.settings import MediaLimits

CPU_GRACE_S = 5
"""The soft limit's SIGXCPU tells the loop why; at an equal hard limit Linux sends SIGKILL first."""

DESCRIPTORS_MAX = 64
"""Open files: the pipe's two ends, a container for each of sound and pictures, and their checks."""

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What the kernel keeps from this process, each by what means; None where by none."""

    network: str | None
    """Sockets of every kind; by a namespace: those that reach beyond the process."""
    processes: str | None
    """Starting programs and processes, and reaching into other ones."""
    writing: str | None
    """Opening any file to write, and changing folders."""
    reading: str | None
    """Opening any file to read but the recording and the program's own code."""


def apply_limits(limits: MediaLimits) -> None:
    """Bound address space, processor time and open files; no core file, no file written.

    The number of processes is left: Linux counts all of the user's threads together, whoever's they
    are, and the filter refuses new processes anyway.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, DESCRIPTORS_MAX)
    _lower(resource.RLIMIT_CPU, limits.cpu_s, CPU_GRACE_S)
    if sys.platform == "linux":  # macOS ignores or refuses an address-space limit
        _lower(resource.RLIMIT_AS, limits.memory_bytes)


def confine(path: str | None) -> Confinement:
    """Give up network, processes and files but `path`, for good, as far as this kernel can.

    Call it before there is a second thread: file rights hold the caller and those it starts later.
    """
    if sys.platform != "linux" or not refuse_new_privileges():
        return Confinement(network=None, processes=None, writing=None, reading=None)
    is_alone = _count_threads() == 1
    files = landlock.allow_reading_only(path)
    by_files = f"Landlock {files}" if files and is_alone else None
    if seccomp.install():
        by_calls = "seccomp"
        return Confinement(
            network=by_calls, processes=by_calls, writing=by_files or by_calls, reading=by_files
        )
    has_own_network = call("unshare", CLONE_NEWUSER | CLONE_NEWNET) == 0
    return Confinement(
        network="network namespace" if has_own_network else None,
        processes=None,
        writing=by_files,
        reading=by_files,
    )


def _count_threads() -> int:
    """Those of libraries included, which Python does not know of."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names alone
    return threading.active_count()


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
