"""A short night in which everything is killed every second or two (`make chaos`: a long one)."""

from __future__ import annotations

from pathlib import Path

from tests.faults.chaos import prepared, told
from tests.processes import needs_proc

SECONDS = 25.0
SEED = 20260930
"""The order of faults is fixed; what they meet is not."""


@needs_proc
def test_a_storm_of_kills_ends_in_known_states(tmp_path: Path) -> None:
    with prepared(tmp_path, hosts=1, seed=SEED) as chaos:
        report = chaos.run(SECONDS)
        table = told(chaos, report, seconds=SECONDS, seed=SEED)
        logs = "\n".join(host.log() for host in chaos.hosts)
        assert not report.broken(), "\n".join([table, *report.broken(), logs])
        assert set(report.states) <= {"succeeded", "failed", "canceled"}, table
        assert report.states["succeeded"] >= 1, table
