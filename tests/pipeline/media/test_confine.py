"""A media process that is stuck and never writes still leaves with its parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STUCK = (
    "import time; from pipeline.media.confine import leave_with_parent\n"
    "leave_with_parent(); print('ready', flush=True); time.sleep(60)\n"
)


def test_a_stuck_process_leaves_when_its_standard_input_closes(repository: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK],
        cwd=repository,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as stuck:
        assert stuck.stdin is not None
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == b"ready\n"
        assert stuck.poll() is None
        stuck.stdin.close()
        try:
            assert stuck.wait(timeout=10) == 0
        finally:
            stuck.kill()
