"""Damaged recordings of every format end in units, a refusal or a stop with a code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="passes descriptors to a fork")

LONG = os.environ.get("OMNAI_TEST_LONG") == "1"
COUNT, SEED = (10_000, 2) if LONG else (60, 1)


@pytest.mark.timeout(7200 if LONG else 300)
def test_no_damaged_file_brings_more_than_a_clear_end(repository: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-B", "scripts/fuzz_media.py"),
            *("--count", str(COUNT), "--seed", str(SEED), "--workers", "2"),
        ],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} files" in done.stdout
    assert "0 faults" in done.stdout
    ended = re.findall(r"(\d+)  ended", done.stdout)
    assert sum(map(int, ended)) > COUNT // 4  # damage that FFmpeg gets over is the hard kind
