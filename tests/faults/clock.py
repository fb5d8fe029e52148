"""A wall clock that is wrong, and steps where it is told to; the monotonic one is left alone."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

CLOCK = "OMNAI_TEST_FAULTS_CLOCK"
"""A file with the seconds by which it is off."""


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
