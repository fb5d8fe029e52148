"""Idempotency keys: one answer, whatever comes twice, and never a wrong one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.ledger import idempotency
from pipeline.ledger.database import Database
from pipeline.ledger.errors import IdempotencyConflict, IdempotencyInFlight
from pipeline.ledger.idempotency import Fresh, Stored
from tests.pipeline.ledger.factories import digest, rows
from tests.pipeline.ledger.racing import held_at

ANSWER = Stored(status=202, body=b'{"id": 1}\x00\xff', headers={"Location": "/v1/jobs/1"})


def begin(database: Database, **given: Any) -> Fresh | Stored:
    return idempotency.begin(
        database,
        **{
            "owner": "ana",
            "key": "k1",
            "route": "POST /v1/jobs",
            "payload_sha256": digest("payload"),
            **given,
        },
    )


def begun(database: Database, **given: Any) -> Fresh:
    fresh = begin(database, **given)
    assert isinstance(fresh, Fresh)
    return fresh


def finish(database: Database, fresh: Fresh, answer: Stored = ANSWER) -> bool:
    try:
        with database.transaction() as session:
            idempotency.keep(session, fresh, answer)
    except IdempotencyInFlight:
        return False
    return True


def let_pass(database: Database, interval: str) -> None:
    rows(
        database,
        f"UPDATE idempotency_keys SET begun_at = begun_at - interval '{interval}' RETURNING 1",
    )


def test_the_same_request_gets_the_first_answer(database: Database) -> None:
    assert finish(database, begun(database))
    assert begin(database) == ANSWER
    assert begin(database) == ANSWER


def test_another_payload_is_a_conflict_before_and_after_the_answer(database: Database) -> None:
    fresh = begun(database)
    with pytest.raises(IdempotencyConflict):
        begin(database, payload_sha256=digest("other"))
    finish(database, fresh)
    with pytest.raises(IdempotencyConflict):
        begin(database, payload_sha256=digest("other"))
    assert begin(database) == ANSWER


def test_a_request_without_an_answer_yet_is_in_flight(database: Database) -> None:
    begun(database)
    with pytest.raises(IdempotencyInFlight):
        begin(database)


@pytest.mark.parametrize(
    "other", [{"owner": "bob"}, {"key": "k2"}, {"route": "POST /v1/recordings"}]
)
def test_owners_keys_and_routes_do_not_meet(database: Database, other: dict[str, str]) -> None:
    finish(database, begun(database))
    begun(database, payload_sha256=digest("other"), **other)


def test_an_abandoned_key_may_try_again_with_anything(database: Database) -> None:
    assert idempotency.abandon(database, begun(database))
    begun(database, payload_sha256=digest("other"))


def test_an_answer_that_was_not_committed_is_none(database: Database) -> None:
    fresh = begun(database)
    with database.transaction() as session:
        idempotency.keep(session, fresh, ANSWER)
        session.rollback()
    with pytest.raises(IdempotencyInFlight):
        begin(database)
    assert finish(database, fresh)


def test_an_answer_is_kept_once(database: Database) -> None:
    fresh = begun(database)
    assert finish(database, fresh)
    assert not finish(database, fresh, Stored(status=500, body=b"", headers={}))
    assert begin(database) == ANSWER


def test_an_answer_cannot_be_abandoned(database: Database) -> None:
    fresh = begun(database)
    finish(database, fresh)
    assert not idempotency.abandon(database, fresh)
    assert begin(database) == ANSWER


def test_a_dead_request_is_taken_over_after_ten_minutes(database: Database) -> None:
    dead = begun(database)
    let_pass(database, "9 min 50 s")
    with pytest.raises(IdempotencyInFlight):
        begin(database)
    let_pass(database, "20 s")
    with pytest.raises(IdempotencyConflict):
        begin(database, payload_sha256=digest("other"))
    alive = begun(database)
    # The one that was taken for dead wakes up: neither its answer nor its failure counts.
    assert not finish(database, dead, Stored(status=500, body=b"", headers={}))
    assert not idempotency.abandon(database, dead)
    with pytest.raises(IdempotencyInFlight):
        begin(database)
    assert finish(database, alive)
    assert begin(database) == ANSWER


def test_an_answer_lasts_a_day(database: Database) -> None:
    finish(database, begun(database))
    let_pass(database, "23 h 59 min")
    assert begin(database) == ANSWER
    let_pass(database, "2 min")
    fresh = begun(database, payload_sha256=digest("other"))
    with pytest.raises(IdempotencyInFlight):
        begin(database, payload_sha256=digest("other"))
    assert finish(database, fresh)


def test_of_two_at_once_one_is_in_flight(database: Database) -> None:
    call = lambda: begin(database)  # noqa: E731
    outcomes = held_at(
        database, "LOCK TABLE idempotency_keys IN SHARE ROW EXCLUSIVE MODE", call, call
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "Fresh",
        "IdempotencyInFlight",
    ]


def test_of_two_that_take_over_at_once_one_is_in_flight(database: Database) -> None:
    begun(database)
    let_pass(database, "11 min")
    call = lambda: begin(database)  # noqa: E731
    outcomes = held_at(database, "SELECT 1 FROM idempotency_keys FOR UPDATE", call, call)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "Fresh",
        "IdempotencyInFlight",
    ]


ASKING = """
import sys, time
from pipeline.ledger import idempotency
from pipeline.ledger.database import connect
database = connect(sys.argv[1])
for key in ("k1", "k2"):
    idempotency.begin(
        database, owner="ana", key=key, route="POST /v1/jobs", payload_sha256=sys.argv[2]
    )
print("begun", flush=True)
time.sleep(60)
"""


def test_a_retry_takes_over_at_once_where_the_process_of_the_first_request_was_killed(
    database: Database, module_database_url: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASKING, module_database_url, digest("payload")],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        with pytest.raises(IdempotencyInFlight):
            begin(database)
        process.kill()
    deadline = time.monotonic() + 30
    while True:  # the server sees it within a moment
        try:
            fresh = begun(database)
            break
        except IdempotencyInFlight:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with pytest.raises(IdempotencyInFlight):  # this one's process is there
        begin(database)
    assert finish(database, fresh)
    assert begin(database) == ANSWER
    assert begun(database, key="k2")


def test_a_request_that_was_taken_for_gone_with_its_connection_answers_nothing(
    database: Database,
) -> None:
    fresh = begun(database)
    rows(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    time.sleep(0.2)
    after = begun(database)
    assert not finish(database, fresh)
    with pytest.raises(IdempotencyInFlight):  # its process has a lock again
        begin(database)
    assert finish(database, after)
