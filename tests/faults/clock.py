"""A wall clock that is wrong, and steps where it is told to; the monotonic one is left alone.

Python's own in every process, or with libfaketime that of all that a process and its children call
in C, where it is installed: by the system (Debian's `libfaketime`) or by the wheel of that name.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pipeline.files import write_whole
from worker.processes import is_gone

CLOCK = "OMNAI_TEST_FAULTS_CLOCK"
"""A file with the seconds by which it is off."""

LIBRARY = "libfaketime.so.1"

PLACES = ("lib*/faketime", "lib/*/faketime", "local/lib/faketime")
"""Below /usr, as distributions have it."""

PROBE = "import time; time.sleep(0.01); print(time.time())"
PROBED_S = 86_400

SEEN_S = 1
"""A step is seen so much later at the latest."""

MONOTONIC = ("DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC")
"""The names of older and of newer releases."""


def library() -> Path | None:
    """A libfaketime that works here; none where it is not installed, or not for this machine.

    Releases as old as Debian 12's break the sleep of newer Pythons.
    """
    spec = importlib.util.find_spec("libfaketime")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in sorted(folder.rglob(LIBRARY))]
    for place in PLACES:
        found += sorted(Path("/usr").glob(f"{place}/{LIBRARY}"))
    return next((path for path in found if _works(path)), None)


def _works(library: Path) -> bool:
    with tempfile.NamedTemporaryFile() as clock:
        step(Path(clock.name), PROBED_S)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROBE],
            env=preloaded(library, Path(clock.name)),
            capture_output=True,
            check=False,
        )
    return done.returncode == 0 and abs(float(done.stdout) - time.time() - PROBED_S) < 60


def preloaded(library: Path, clock: Path) -> dict[str, str]:
    """The environment of a process that is to have the clock of this file."""
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        # Read at every call, the file makes each start of a process half as long again.
        "FAKETIME_CACHE_DURATION": str(SEEN_S),
        "NO_FAKE_STAT": "1",
        **dict.fromkeys(MONOTONIC, "1"),
    }


def step(clock: Path, off_s: int) -> None:
    write_whole(clock, f"{off_s:+d}".encode())


def clear() -> None:
    """What processes that were killed have left in the machine's shared memory."""
    for path in Path("/dev/shm").glob("*faketime_*"):
        pid = path.name.rpartition("_")[2]
        if pid.isdigit() and is_gone(int(pid)):
            path.unlink(missing_ok=True)


def install() -> None:
    """Before anything of ours, or of what it uses, has taken hold of the real one."""
    real_s, real_ns, real = time.time, time.time_ns, datetime.datetime

    def off_s() -> float:
        return float(Path(os.environ[CLOCK]).read_text())

    class Same(type):
        """What the database's driver makes is a moment too."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Wrong(real, metaclass=Same):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.now(tz) + datetime.timedelta(seconds=off_s())

        @classmethod
        def utcnow(cls) -> Any:
            return real.utcnow() + datetime.timedelta(seconds=off_s())

    time.time = lambda: real_s() + off_s()
    time.time_ns = lambda: real_ns() + int(off_s() * 1e9)
    datetime.datetime = Wrong  # type: ignore[misc]
