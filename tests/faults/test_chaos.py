"""A short night in which everything is killed every second or two (`make chaos`: a long one)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.records import JobState
from tests.faults.chaos import broken, prepared, told
from tests.faults.host import Host
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
        assert not report.broken(), "\n".join([table, *broken(chaos.hosts, report), logs])
        assert set(report.states) <= {"succeeded", "failed", "canceled"}, table
        assert report.states["succeeded"] >= 1, table


@needs_proc
def test_a_fault_of_our_own_is_told_with_the_log_of_its_epoch(
    make_host: Callable[..., Host],
) -> None:
    host = make_host(log_format="json")
    host.start()
    host.await_loaded()
    host.plan(at="before_unit_commit", sequence=1, do="break")
    job_id = host.submit()
    host.await_state(job_id, JobState.FAILED)
    after = host.submit()
    host.await_state(after, JobState.SUCCEEDED)
    report = host.measure()
    assert [key.job_id for key in report.internal] == [job_id]
    lines = broken([host], report)
    assert f"I6: epochs ended by a fault of OmnAI's own: ['{job_id} epoch 1']" in lines
    log = "\n".join(lines[lines.index(f"The log of {job_id} epoch 1:") :])
    assert "ZeroDivisionError" in log
    assert "pipeline/run.py" in log
    assert after not in log
