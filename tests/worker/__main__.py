"""What `omnai worker` does, for tests that need its process alone."""

from __future__ import annotations

import sys

from pipeline.errors import OmnaiError
from pipeline.settings import Settings
from worker import supervisor

if __name__ == "__main__":
    try:
        sys.exit(supervisor.run(Settings.from_environment()))
    except OmnaiError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n")
        sys.exit(2)
