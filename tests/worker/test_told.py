"""A signal that comes at any moment is seen, and nothing waits for itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tests.hosts import ROOT

PROGRAM = """
import os, signal, sys, time
from worker.told import Told

told = Told()
signal.signal(signal.SIGTERM, lambda number, frame: told.set())
sys.stdout.write("ready\\n")
sys.stdout.flush()
ends = time.monotonic() + LASTS_S
while time.monotonic() < ends:
    if told.wait(0.0001):
        told = Told()
os._exit(0)
"""

LASTS_S = 1.5


def test_a_signal_never_stops_the_thread_that_waits_for_it() -> None:
    """As an Event does: within some hundred signals it waits for a lock that it holds itself."""
    program = PROGRAM.replace("LASTS_S", str(LASTS_S))
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + LASTS_S + 6
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.0001)
        assert process.poll() == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
