"""What is told to whoever watches: right, of one moment, and bounded."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.ledger import deletion, epochs, gauges, jobs, totals, workers
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.gauges import Waiting
from pipeline.ledger.queue import QueueState
from pipeline.ledger.workers import WorkerState
from pipeline.records import EndReason, JobState, WrittenUnit
from tests.pipeline.ledger.factories import make_engine, record_unit, rows, start
from tests.pipeline.ledger.queued import submit


def finish(database: Database, key: EpochKey, reason: EndReason = EndReason.COMPLETED) -> None:
    outcome = JobState.SUCCEEDED if reason is EndReason.COMPLETED else JobState.FAILED
    if outcome is JobState.SUCCEEDED:
        jobs.move(
            database, key.job_id, source=JobState.RUNNING, target=JobState.FINALIZING, under=key
        )
    jobs.finish(database, key, outcome=outcome, end_reason=reason)
    epochs.release(database, key)


def test_an_empty_service_has_figures_too(database: Database) -> None:
    found = gauges.read(database)
    assert found.queue is QueueState.OPEN
    assert (found.waiting, found.totals, found.paces, found.live, found.workers) == ((),) * 5


def test_jobs_are_counted_by_engine_and_state_and_may_wait_for_their_time(
    database: Database,
) -> None:
    for _ in range(3):
        submit(database)
    rows(
        database,
        "UPDATE jobs SET queued_at = now() - interval '1 h', not_before = now() + interval '1 h'"
        " WHERE id = (SELECT min(id::text)::uuid FROM jobs) RETURNING 1",
    )
    [queued] = gauges.read(database).waiting
    assert (queued.engine, queued.state, queued.count) == ("rehearsal", "queued", 3)
    assert queued.oldest_s < 60
    rows(
        database,
        "UPDATE jobs SET queued_at = now() - interval '2 h', not_before = NULL RETURNING 1",
    )
    start(database)
    running, queued = sorted(gauges.read(database).waiting, key=lambda found: found.count)
    assert (running.state, running.count) == ("running", 1)
    assert queued == Waiting(
        engine="rehearsal", state="queued", count=3, oldest_s=pytest.approx(7200, abs=60)
    )


def test_a_running_epoch_shows_its_slot_and_how_old_its_stamps_are(
    database: Database, key: EpochKey
) -> None:
    rows(
        database,
        "UPDATE epochs SET alive_at = now() - interval '10 s',"
        " progress_at = now() - interval '20 s' RETURNING 1",
    )
    [live] = gauges.read(database).live
    assert (live.slot, live.host, live.phase) == ("host:0", "host", "claim")
    assert live.alive_age_s == pytest.approx(10, abs=5)
    assert live.progress_age_s == pytest.approx(20, abs=5)
    finish(database, key)
    assert gauges.read(database).live == ()


def test_totals_never_fall_when_jobs_are_deleted(database: Database) -> None:
    for engine, reason in (
        ("rehearsal", EndReason.COMPLETED),
        ("rehearsal", EndReason.ENGINE_ERROR),
        ("minicpmo", EndReason.COMPLETED),
    ):
        key = start(database, engine=make_engine(name=engine))
        rows(database, "UPDATE epochs SET started_at = now() - interval '90 s' RETURNING 1")
        finish(database, key, reason)
    running = start(database)

    def read() -> dict[tuple[str, str], tuple[int, float]]:
        with database.transaction() as session:
            return {
                (total.engine, total.reason): (total.count, total.held_s)
                for total in totals.read(session)
            }

    before = read()
    assert {at: count for at, (count, _) in before.items()} == {
        ("rehearsal", "completed"): 1,
        ("rehearsal", "engine_error"): 1,
        ("rehearsal", totals.LIVE): 1,
        ("minicpmo", "completed"): 1,
    }
    assert before["minicpmo", "completed"][1] >= 90
    ids = rows(database, "SELECT id::text FROM jobs WHERE end_reason IS NOT NULL")
    for (job_id,) in ids:
        deletion.delete_job(database, job_id, owner=None)
    assert rows(database, "SELECT count(*) FROM epochs") == [(1,)]
    after = read()
    del before["rehearsal", totals.LIVE], after["rehearsal", totals.LIVE]
    assert set(after) == set(before)
    for at, (count, held_s) in after.items():
        assert (count, held_s) == (before[at][0], pytest.approx(before[at][1], abs=0.01))
    finish(database, running)


def test_the_pace_is_that_of_the_newest_units(
    database: Database, key: EpochKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges, "RECENT_UNITS", 10)
    for sequence in range(21):
        took_ms = 9000.0 if sequence < 11 else 500.0  # the slow ones are no longer recent
        written = WrittenUnit(sequence=sequence - 1, ledger_ms=1.0, total_ms=took_ms)
        record_unit(database, key, sequence, written=written if sequence else None)
    rows(
        database, "UPDATE units SET committed_at = now() + sequence * interval '0.25 s' RETURNING 1"
    )
    [pace] = gauges.read(database).paces
    # Ten are looked at; the newest does not know yet how long it took.
    assert (pace.engine, pace.units) == ("rehearsal", 9)
    assert (pace.median_s, pace.p95_s, pace.max_s) == (0.5, 0.5, 0.5)
    assert pace.realtime == pytest.approx(4.0)
    finish(database, key)
    rows(database, "UPDATE epochs SET ended_at = now() - interval '25 h' RETURNING 1")
    assert gauges.read(database).paces == ()


def test_a_look_at_units_reads_a_bounded_range_of_their_key(database: Database) -> None:
    """Whatever the statistics say: without a limit to each epoch the planner may read all units."""
    with database.transaction() as session:
        plan = "\n".join(
            session.scalars(
                text(f"EXPLAIN {gauges._PACES.text}"),
                {"epochs": gauges.RECENT_EPOCHS, "units": gauges.RECENT_UNITS},
            )
        )
    assert "Seq Scan on units" not in plan
    assert "sequence >" in plan.partition("Index Cond")[2].partition("\n")[0]


def test_a_worker_that_left_or_was_lost_long_ago_is_not_expected(database: Database) -> None:
    ids = {
        slot: workers.register(database, host="host", slot=slot, engine="rehearsal", pid=1)
        for slot in ("ready", "gone", "old", "held")
    }
    workers.set_state(database, ids["ready"], WorkerState.READY)
    workers.set_state(database, ids["gone"], WorkerState.GONE)
    workers.set_state(database, ids["held"], WorkerState.QUARANTINED)
    rows(
        database,
        "UPDATE workers SET alive_at = now() - interval '8 days'"
        " WHERE slot IN ('old', 'held') RETURNING 1",
    )
    found = {seen.slot: seen.state for seen in gauges.read(database).workers}
    assert found == {"ready": "ready", "held": "quarantined"}
