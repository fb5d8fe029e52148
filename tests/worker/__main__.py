"""What `omnai worker` does, for tests that need its process alone; it looks more often."""

from __future__ import annotations

import sys

from pipeline.errors import OmnaiError
from pipeline.settings import Settings
from tests.worker import staged
from worker import dispatcher, reaper, supervisor, watchdog

dispatcher.PERIOD_S = 0.5
reaper.PERIOD_S = 0.3
watchdog.PERIOD_S = 0.3
supervisor.BACKOFF_S = (0.2,)
supervisor.RELOADS_MAX = staged.RELOADS_MAX

if __name__ == "__main__":
    try:
        sys.exit(supervisor.run(Settings.from_environment()))
    except OmnaiError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n")
        sys.exit(2)
