"""What the doubles of a fault test are told, and what they write down: a file each."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

PLAN = "OMNAI_TEST_FAULTS_PLAN"
"""A file of JSON, read at every point: how long a unit takes (`unit_s`), how long the database may
be away (`outage_s`), whether a claim waits (`is_held`), and one fault: `at` a point, in a unit's
`sequence` where that is given, `do` this. A fault strikes once."""

DIARY = "OMNAI_TEST_FAULTS_DIARY"
"""Where each event is written down, one line of JSON with the process and the monotonic clock."""

HANG_S = 600

PIECE_BYTES = 16 * 1024**2
"""Of memory that is taken."""

quiet = threading.Lock()
"""Held while a sign of life is stored: whoever is stopped then holds its epoch's row for a minute,
until PostgreSQL ends the session, and what is tested is the fence."""


class DeviceOutOfMemory(RuntimeError):
    """What a GPU's library raises; the model's state is unknown after it."""


def read() -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(Path(os.environ[PLAN]).read_text())
    return plan


def write(event: str, **facts: Any) -> None:
    line = json.dumps({"event": event, "pid": os.getpid(), "at": time.monotonic(), **facts})
    descriptor = os.open(os.environ[DIARY], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())  # one call: whole or absent
    finally:
        os.close(descriptor)


def reach(point: str, sequence: int | None = None) -> None:
    """Where a fault may strike; most plans have none here."""
    plan = read()
    if plan.get("at") != point or plan.get("sequence", sequence) != sequence:
        return
    fired = Path(f"{os.environ[PLAN]}.{plan['number']}")
    try:
        os.close(os.open(fired, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    write("fault", point=point, do=plan["do"])
    _strike(plan)


def _strike(plan: dict[str, Any]) -> None:
    match plan["do"]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(HANG_S)  # a signal to oneself may come a little later
        case "stop":
            with quiet:
                os.kill(os.getpid(), signal.SIGSTOP)
        case "hang":
            while True:  # a signal ends one call
                ctypes.CDLL(None).sleep(HANG_S)
        case "hang with the interpreter's lock":
            while True:
                ctypes.PyDLL(None).sleep(HANG_S)
        case "break":
            raise ZeroDivisionError("a fault of nobody's but ours")
        case "sleep":
            time.sleep(plan["sleep_s"])
        case "run out of device memory":
            raise DeviceOutOfMemory("CUDA out of memory")
        case "run out of memory":
            _fill_memory()
        case "take memory until killed":
            _take_memory(plan["bytes"])
        case "fill the disk":
            os.fsync = _no_space
        case "wait":
            while Path(plan["while_there"]).exists():
                time.sleep(0.02)
        case other:
            raise AssertionError(other)


_fsync = os.fsync


def _no_space(descriptor: int) -> None:
    """Where a disk that promised the space finds that it is not there; once."""
    os.fsync = _fsync
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _take_memory(bytes_max: int) -> None:
    """Each page is written to, so that it is really there; then more is looked for and not had."""
    kept = [b"x" * PIECE_BYTES for _ in range(bytes_max // PIECE_BYTES)]
    write("taken", bytes=PIECE_BYTES * len(kept))
    while True:
        kept[-1] = b"x" * PIECE_BYTES
        time.sleep(0.01)


def _fill_memory() -> None:
    """Against a limit of this process's own, where the kernel's would end others too."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 64 * 1024**2
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    kept = []
    while True:
        kept.append(bytearray(PIECE_BYTES))
