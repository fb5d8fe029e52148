"""What `omnai worker` does, looking more often, and with what a plan takes from it."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pipeline.errors import OmnaiError
from pipeline.settings import Settings
from tests.faults.host import UNKILLABLE
from worker import dispatcher, loop, reaper, supervisor, watchdog

GRACE_S = 2.5
"""A stamp that came late on a busy machine is renewed by then."""

dispatcher.PERIOD_S = 0.3
reaper.PERIOD_S = 0.3
reaper.PUBLISH_PERIOD_S = 0.5
watchdog.PERIOD_S = 0.2
watchdog.GONE_S = 5.0
supervisor.BACKOFF_S = (0.2,)
for call, name, value in (
    (reaper.Publisher.__init__, "after_s", 1.0),
    (loop.Loop.__init__, "grace_s", GRACE_S),
):
    defaults: Any = call.__kwdefaults__
    assert name in defaults
    defaults[name] = value

if UNKILLABLE in os.environ:
    kill, watchdog.GONE_S = os.kill, 0.5

    def spare(pid: int, number: int) -> None:
        if number != signal.SIGKILL:
            kill(pid, number)

    os.kill = spare

if __name__ == "__main__":
    try:
        sys.exit(supervisor.run(Settings.from_environment()))
    except OmnaiError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n")
        sys.exit(2)
