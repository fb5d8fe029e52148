"""What is expected of the queue, from rows that say how fast this installation is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.ledger import forecast, pace, queue, starts, workers
from pipeline.ledger.claims import Claimed
from pipeline.ledger.database import Database
from pipeline.ledger.forecast import Line, Outlook, Unknown
from pipeline.ledger.queue import QueueState
from pipeline.ledger.workers import WorkerState
from pipeline.records import JobState, Options
from pipeline.settings import Settings
from tests.pipeline.ledger.clock import tell, told
from tests.pipeline.ledger.factories import make_probe, make_request, record_unit, rows
from tests.pipeline.ledger.queued import claim, claimed, fail, submit, upload

EVENING = "2026-01-15T21:00:00Z"
NOW = datetime.fromisoformat("2026-01-15T21:00:00+00:00")

SETTINGS = Settings(night="19:30-06:30", night_zone="Europe/Berlin", night_weekends=False)


COPIES = """
    INSERT INTO units SELECT (jsonb_populate_record(unit, jsonb_build_object(
        'sequence', place, 'second', place, 'end_ms', (place + 1) * 1000
    ))).* FROM units AS unit, generate_series(1, :last) AS place
    WHERE job_id = :job_id AND epoch = :epoch RETURNING 1
"""
LAST = (
    "UPDATE epochs SET last_sequence = :last WHERE job_id = :job_id AND number = :epoch RETURNING 1"
)
SPENT = """
    UPDATE units SET total_ms = :total_ms, decode_ms = :decode_ms
    WHERE job_id = :job_id AND epoch = :epoch RETURNING 1
"""


@pytest.fixture
def evening(database_url: str) -> Iterator[Database]:
    """Ten in the evening of a Thursday in Berlin, for as long as nobody tells another time."""
    with told(database_url, EVENING) as database:
        yield database


def look(database: Database, settings: Settings = SETTINGS) -> Outlook:
    with database.transaction() as session:
        return forecast.read(session, settings)


def line(database: Database, job_id: str, settings: Settings = SETTINGS) -> Line:
    found = look(database, settings).line(job_id)
    assert found is not None
    return found


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def ready(database: Database, slot: str = "host:0", **given: Any) -> str:
    worker_id = workers.register(
        database, host="host", slot=slot, engine=given.pop("engine", "rehearsal"), pid=1
    )
    workers.set_state(database, worker_id, given.pop("state", WorkerState.READY))
    return worker_id


BEGUN = """
    WITH first AS (UPDATE units SET committed_at = now() WHERE job_id = :job_id AND epoch = :epoch)
    UPDATE epochs SET started_at = now() - make_interval(secs => :before_s)
    WHERE job_id = :job_id AND number = :epoch RETURNING 1
"""


def run(
    database: Database,
    units: int = 40,
    *,
    slot: str = "host:0",
    start_up_s: float | None = None,
    **times: float,
) -> Claimed:
    """Claim the next job and complete so many seconds of it, each of which took half a second."""
    found = claimed(database, slot=slot)
    record_unit(database, found.key)
    spent = {"total_ms": 500.0, "decode_ms": 20.0} | times
    under = {"job_id": found.key.job_id, "epoch": found.key.number}
    rows(database, COPIES, **under, last=units - 1)
    rows(database, LAST, **under, last=units - 1)
    rows(database, SPENT, **under, **spent)
    if start_up_s is not None:
        rows(database, BEGUN, **under, before_s=start_up_s + spent["total_ms"] / 1000)
    return found


def measure(database: Database, **given: Any) -> None:
    """Let an epoch have run and ended, so that there is a pace."""
    submit(database)
    fail(database, run(database, **given).key)


def test_an_hour_of_recording_at_twice_realtime_takes_half_an_hour(evening: Database) -> None:
    measure(evening)
    ready(evening)
    first, second = (
        submit(evening),
        submit(evening, request=make_request(options=Options(start_s=1800))),
    )
    found = look(evening)
    assert found.paces["rehearsal"].work_s_per_source_s == 0.5
    assert (found.paces["rehearsal"].units, found.paces["rehearsal"].epochs) == (40, 1)
    assert (found.queued, found.awaited, found.ready) == (2, 0, {"rehearsal": 1})
    assert [(each.job_id, each.position) for each in found.lines] == [(first, 1), (second, 2)]
    assert [(each.starts_at, each.ends_at) for each in found.lines] == [
        (NOW, NOW + hours(0.5)),
        (NOW + hours(0.5), NOW + hours(0.75)),
    ]
    assert [each.unknown for each in found.lines] == [None, None]


def test_each_job_pays_for_its_workers_start(evening: Database) -> None:
    for slot, seconds in (("host:0", 600), ("host:0", 120), ("host:0", 100), ("host:1", 60)):
        measure(evening, slot=slot, start_up_s=seconds)
    ready(evening)
    jobs = [submit(evening), submit(evening)]
    start, work = timedelta(seconds=120), hours(0.5)
    found = look(evening)
    assert [(each.starts_at, each.ends_at) for each in found.lines] == [
        (NOW, NOW + start + work),
        (NOW + start + work, NOW + 2 * (start + work)),
    ]
    assert dict(found.starts["rehearsal"].by_slot) == {"host:0": 120, "host:1": 60}
    assert found.starts["rehearsal"].usual_s == 110
    # Another worker's own; and one that has run nothing yet is taken to be like the others.
    ready(evening, "host:1")
    assert line(evening, jobs[1]).ends_at == NOW + timedelta(seconds=60) + work
    ready(evening, "host:2")
    submit(evening)
    assert look(evening).lines[2].ends_at == NOW + timedelta(seconds=110) + work


def test_what_begins_has_the_rest_of_its_start_before_it(evening: Database) -> None:
    measure(evening, start_up_s=120)
    ready(evening)
    submit(evening)
    key = claimed(evening).key
    rows(evening, "UPDATE epochs SET started_at = now() WHERE ended_at IS NULL RETURNING 1")
    # The last one: a clock that was put back.
    for at, ends_s in (("21:00:00", 120), ("21:00:50", 120), ("21:05:00", 300), ("20:59:00", 60)):
        tell(evening, f"2026-01-15T{at}Z")
        rows(evening, "UPDATE workers SET alive_at = now() RETURNING 1")
        shown = line(evening, key.job_id)
        assert shown.starts_at == NOW
        assert shown.ends_at == NOW + timedelta(seconds=ends_s) + hours(0.5), at
    record_unit(evening, key)
    tell(evening, EVENING)
    assert line(evening, key.job_id).ends_at == NOW + timedelta(seconds=(3600 - 1) * 0.5)


def test_the_newest_starts_are_what_is_measured(
    evening: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "EPOCHS_MAX", 1)
    monkeypatch.setattr(starts, "JOBS_MAX", 2)
    for hour, slot, seconds in ((1, "host:1", 30), (2, "host:0", 20), (3, "host:0", 10)):
        tell(evening, f"2026-01-15T1{hour}:00:00Z")
        measure(evening, slot=slot, start_up_s=seconds)
    tell(evening, EVENING)
    ready(evening)
    assert dict(look(evening).starts["rehearsal"].by_slot) == {"host:0": 10}


def test_the_slower_of_the_engine_and_the_decoder_is_what_counts(evening: Database) -> None:
    measure(evening, total_ms=500.0, decode_ms=750.0)
    assert look(evening).paces == {}  # of an engine that nobody asks for nothing is told
    ready(evening)
    assert look(evening).paces["rehearsal"].work_s_per_source_s == 0.75


def test_what_runs_keeps_its_slot_busy_for_what_is_left_of_it(evening: Database) -> None:
    ready(evening)
    submit(evening)
    running = run(evening, units=60)
    job_id = submit(evening)
    shown = line(evening, running.key.job_id)
    assert (shown.state, shown.position, shown.unknown) == (JobState.RUNNING, None, None)
    left = timedelta(seconds=(3600 - 60) * 0.5)
    assert rows(evening, "SELECT started_at FROM epochs") == [(shown.starts_at,)]
    assert shown.ends_at == NOW + left
    assert line(evening, job_id).starts_at == NOW + left
    # A second worker would begin at once.
    ready(evening, "host:1")
    assert line(evening, job_id).starts_at == NOW


def test_the_newest_units_of_the_newest_epochs_are_what_is_measured(
    evening: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "UNITS_MAX", 20)
    monkeypatch.setattr(pace, "EPOCHS_MAX", 2)
    for minute, spent in enumerate((9000.0, 400.0, 600.0)):
        tell(evening, f"2026-01-15T20:0{minute}:00Z")
        measure(evening, total_ms=spent)
        rows(
            evening,
            "UPDATE units SET total_ms = 7e3 WHERE sequence < 20 AND total_ms = :spent RETURNING 1",
            spent=spent,
        )
    rows(evening, "UPDATE jobs SET created_at = queued_at RETURNING 1")
    rows(evening, "UPDATE epochs SET started_at = progress_at RETURNING 1")
    tell(evening, EVENING)
    ready(evening)
    found = look(evening).paces["rehearsal"]
    assert (found.work_s_per_source_s, found.units, found.epochs) == (0.5, 40, 2)


UNKNOWN: dict[str, Unknown] = {
    "nothing measured": Unknown.NOTHING_MEASURED,
    "too little measured": Unknown.NOTHING_MEASURED,
    "no worker": Unknown.NO_WORKER,
    "a worker that loads": Unknown.NO_WORKER,
    "a worker without a sign of life": Unknown.NO_WORKER,
    "a worker of another engine": Unknown.NO_WORKER,
    "paused": Unknown.QUEUE_PAUSED,
    "draining": Unknown.QUEUE_PAUSED,
    "its own length": Unknown.LENGTH_UNKNOWN,
    "a length before it": Unknown.AHEAD_UNKNOWN,
    "a length that runs": Unknown.AHEAD_UNKNOWN,
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_none_and_says_why(evening: Database, case: str) -> None:
    unmeasured = upload(evening, "bob", probe=replace(make_probe(), packet_end_ms=None))
    if case != "nothing measured":
        measure(evening, units=29 if case == "too little measured" else 30)
    if case == "a worker that loads":
        ready(evening, state=WorkerState.LOADING)
    elif case == "a worker of another engine":
        ready(evening, engine="minicpmo")
    elif case != "no worker":
        ready(evening)
    if case in ("a length before it", "a length that runs"):
        submit(evening, "bob", recording=unmeasured)
    if case == "a length that runs":
        run(evening)
    own = {"recording": unmeasured} if case == "its own length" else {}
    job_id = submit(evening, **own)
    if case in ("paused", "draining"):
        with evening.transaction() as session:
            queue.set_state(session, QueueState(case))
    if case == "a worker without a sign of life":
        tell(evening, "2026-01-15T21:01:31Z")
    found = line(evening, job_id)
    assert (found.ends_at, found.unknown) == (None, UNKNOWN[case])
    knows_start = case in ("nothing measured", "too little measured", "its own length")
    assert found.starts_at == (NOW if knows_start else None)
    assert found.is_late is None


def test_a_job_is_late_by_what_is_expected_and_by_the_clock(evening: Database) -> None:
    measure(evening)
    ready(evening)
    wanted = {submit(evening): NOW + hours(0.5), submit(evening): NOW + hours(0.5)}
    for job_id, ready_by in wanted.items():
        rows(
            evening,
            "UPDATE jobs SET ready_by = :ready_by WHERE id = :id RETURNING 1",
            ready_by=ready_by,
            id=job_id,
        )
    in_time, late = wanted
    assert [line(evening, job_id).is_late for job_id in (in_time, late)] == [False, True]
    with evening.transaction() as session:
        queue.set_state(session, QueueState.PAUSED)
    assert [line(evening, job_id).is_late for job_id in wanted] == [None, None]
    tell(evening, "2026-01-15T21:30:01Z")
    assert [line(evening, job_id).is_late for job_id in wanted] == [True, True]


def test_the_window_and_its_hard_end_are_respected(evening: Database) -> None:
    tell(evening, "2026-01-16T05:15:00Z")  # a quarter of an hour before it closes
    measure(evening)
    ready(evening)
    first, second = submit(evening), submit(evening)
    closes, opens = (
        datetime.fromisoformat(f"2026-01-16T{at}:00+00:00") for at in ("05:30", "18:30")
    )
    soft, hard = look(evening), look(evening, replace(SETTINGS, night_hard_end=True))
    assert [(each.ends_at, each.is_cut) for each in soft.lines] == [
        (closes + hours(0.25), False),
        (opens + hours(0.5), False),
    ]
    assert [(each.ends_at, each.is_cut) for each in hard.lines] == [
        (closes, True),
        (opens + hours(0.5), False),
    ]
    assert [each.job_id for each in hard.lines] == [first, second]


def test_positions_are_the_order_of_claims(evening: Database) -> None:
    made = []
    for priority, wait in ((0, 0), (-5, 0), (3, 0), (0, 0), (-9, 2), (0, 1)):
        made.append(submit(evening))
        rows(
            evening,
            "UPDATE jobs SET priority = :priority, not_before = now() + :wait * interval '1 h'"
            " WHERE id = :id RETURNING 1",
            priority=priority,
            wait=wait,
            id=made[-1],
        )
    rows(
        evening,
        "UPDATE jobs SET created_at = '2026-01-01T00:00Z' WHERE id = :id RETURNING 1",
        id=made[3],
    )
    told_order = [each.job_id for each in look(evening).lines]
    assert [each.position for each in look(evening).lines] == [1, 2, 3, 4, 5, 6]
    claims = []
    for moment in (EVENING, "2026-01-15T22:00:00Z", "2026-01-15T23:00:00Z"):
        tell(evening, moment)
        while (found := claim(evening, slot=f"slot {len(claims)}")) is not None:
            claims.append(found.key.job_id)
    assert claims == told_order


def test_a_pace_is_read_by_keys_and_not_from_all_units(evening: Database) -> None:
    measure(evening)
    with evening.transaction() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))
        seen: list[str] = []
        execute = session.execute

        def explained(statement: Any) -> Any:
            compiled = statement.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
            plan = execute(text(f"EXPLAIN {str(compiled).replace(':', chr(92) + ':')}"))
            seen.extend(plan.scalars())
            return execute(statement)

        session.execute = explained  # type: ignore[method-assign, assignment]
        assert pace.measured(session, "rehearsal") is not None
        assert starts.measured(session, "rehearsal") is not None
    plan = "\n".join(seen)
    assert "Seq Scan" not in plan, plan
    for index in ("ix_jobs_created_at_id", "pk_epochs", "pk_units"):
        assert index in plan, plan
