"""Claims: one job to one slot, in the database's order, and nothing that may not run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pytest

from pipeline.errors import ContextTooLong
from pipeline.ledger import claims, dossiers, epochs, jobs
from pipeline.ledger.claims import Claimed
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import SlotBusy
from pipeline.records import EndReason, Holding, JobState, Options
from tests.pipeline.ledger.factories import (
    HOLDINGS,
    digest,
    make_engine,
    make_request,
    rows,
    start,
)
from tests.pipeline.ledger.queued import claim, claimed, fail, submit
from tests.pipeline.ledger.racing import held_at


@pytest.fixture
def many(module_database_url: str, database: Database) -> Iterator[list[Database]]:
    """Twenty connections, as of twenty processes."""
    databases = [connect(module_database_url) for _ in range(20)]
    yield databases
    for each in databases:
        each.dispose()


def queue_is(database: Database, *changes: str) -> list[str]:
    """Submit one job for each change of its row, oldest first, and return their ids."""
    made = []
    for minutes, change in enumerate(changes):
        job_id = submit(database)
        age = f"created_at = '2026-01-01T00:{minutes:02}Z'"
        assignments = f"{age}, {change}" if change else age
        rows(database, f"UPDATE jobs SET {assignments} WHERE id = '{job_id}' RETURNING 1")
        made.append(job_id)
    return made


def claimed_in_order(database: Database) -> list[str]:
    order: list[str] = []
    while (found := claim(database, slot=f"slot {len(order)}")) is not None:
        order.append(found.key.job_id)
    return order


def test_a_claim_opens_the_first_epoch_and_tells_all_that_a_run_needs(database: Database) -> None:
    job_id = submit(database, request=make_request(options=Options(start_s=7)))
    found = claimed(database)
    assert (found.key.job_id, found.key.number, found.start_s) == (job_id, 1, 7)
    assert found.request == make_request(options=Options(start_s=7))
    assert found.holdings == HOLDINGS
    assert (found.recording.sha256, found.recording.filename) == (digest("ana"), "call.mp4")
    assert found.prompt == "What was said about margins? 3"
    dossier = dossiers.load(database, job_id)
    [epoch] = dossier.epochs
    assert dossier.state is JobState.RUNNING
    assert (epoch.number, epoch.start_s, epoch.engine) == (1, 7, make_engine())
    assert epoch.prompt_sha256 == hashlib.sha256(found.prompt.encode()).hexdigest()
    [held] = epochs.unreleased(database, host="host", slot="host:0")
    assert (held.key, held.pid, held.is_fenced) == (found.key, 4711, False)
    assert rows(database, "SELECT next_epoch, next_start_s FROM jobs") == [(2, None)]


def test_an_empty_queue_gives_nothing(database: Database) -> None:
    assert claim(database) is None
    start(database)
    assert claim(database) is None


def test_priority_then_age_then_id_decide(database: Database) -> None:
    old, urgent, older_than_none, late = queue_is(database, "", "priority = -1", "", "priority = 1")
    assert claimed_in_order(database) == [urgent, old, older_than_none, late]


def test_two_of_one_moment_are_claimed_by_id(database: Database) -> None:
    made = [submit(database) for _ in range(4)]
    rows(database, "UPDATE jobs SET created_at = '2026-01-01T00:00Z' RETURNING 1")
    assert claimed_in_order(database) == sorted(made)


def test_only_what_may_run_now_on_this_engine_is_claimed(database: Database) -> None:
    *_, due, plain = queue_is(
        database,
        "not_before = now() + interval '1 h'",
        "cancel_requested_at = now()",
        "engine = 'minicpmo'",
        "state = 'canceled', canceled_at = now(), end_reason = 'canceled'",
        "not_before = now() - interval '1 s'",
        "",
    )
    assert claims.waiting(database, engine="rehearsal") == 2
    assert claims.waiting(database, engine="minicpmo") == 1
    assert claims.waiting(database, engine="other") == 0
    assert claims.waiting(database, engine=None) == 3
    assert claimed_in_order(database) == [due, plain]
    assert claims.waiting(database, engine="rehearsal") == 0


def test_a_busy_slot_leaves_the_job_in_the_queue(database: Database) -> None:
    submit(database)
    first = claimed(database)
    second = submit(database)
    with pytest.raises(SlotBusy):
        claim(database)
    assert jobs.state_of(database, second) is JobState.QUEUED
    assert rows(database, "SELECT count(*) FROM epochs") == [(1,)]
    fail(database, first.key)
    assert claimed(database).key.job_id == second


def test_a_slot_is_busy_until_it_is_released_not_only_ended(database: Database) -> None:
    submit(database)
    jobs.give_up(database, claimed(database).key, end_reason=EndReason.WORKER_LOST)
    submit(database)
    with pytest.raises(SlotBusy):
        claim(database)


def test_a_busy_slot_with_an_empty_queue_is_nothing_to_do(database: Database) -> None:
    submit(database)
    claimed(database)
    assert claim(database) is None


def test_a_prompt_that_cannot_be_made_leaves_the_job_in_the_queue(database: Database) -> None:
    def refuse(objective: str, holdings: Sequence[Holding]) -> str:
        raise RuntimeError("no prompt")

    job_id = submit(database)
    with pytest.raises(RuntimeError, match="no prompt"):
        claim(database, prompt=refuse)
    assert jobs.state_of(database, job_id) is JobState.QUEUED
    assert claimed(database).key.number == 1


def test_twenty_at_one_job_have_one_winner(database: Database, many: list[Database]) -> None:
    submit(database)
    outcomes = at_once(database, many)
    assert sum(isinstance(outcome, Claimed) for outcome in outcomes) == 1
    assert outcomes.count(None) == 19
    assert rows(database, "SELECT count(*) FROM epochs") == [(1,)]


def test_twenty_at_twenty_jobs_take_one_each(database: Database, many: list[Database]) -> None:
    made = [submit(database) for _ in range(20)]
    won = [found.key.job_id for found in at_once(database, many) if isinstance(found, Claimed)]
    assert sorted(won) == sorted(made)


def test_twenty_of_one_slot_have_one_winner(database: Database, many: list[Database]) -> None:
    for _ in range(20):
        submit(database)
    outcomes = at_once(database, many, slot="host:0")
    assert sum(isinstance(outcome, Claimed) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, SlotBusy) for outcome in outcomes) == 19
    assert claims.waiting(database, engine="rehearsal") == 19


def at_once(
    database: Database, many: list[Database], *, slot: str | None = None
) -> list[Claimed | SlotBusy | None]:
    return held_at(
        database,
        "LOCK TABLE jobs IN EXCLUSIVE MODE",
        *(
            lambda each=each, place=place: claim(each, slot=slot or f"host:{place}")
            for place, each in enumerate(many)
        ),
    )


def test_a_cancel_and_a_claim_at_once_agree(database: Database) -> None:
    job_id = submit(database)
    seen, found = held_at(
        database,
        "LOCK TABLE jobs IN EXCLUSIVE MODE",
        lambda: jobs.request_cancel(database, job_id),
        lambda: claim(database),
    )
    ended = jobs.state_of(database, job_id)
    if found is None:
        assert (seen, ended) == (JobState.CANCELED, JobState.CANCELED)
    else:
        assert (seen, ended) == (JobState.CANCELING, JobState.CANCELING)


def test_a_job_whose_context_is_too_long_fails_without_an_epoch_and_the_next_one_is_claimed(
    database: Database,
) -> None:
    def measured(objective: str, holdings: Sequence[Holding]) -> str:
        if objective == "Much.":
            raise ContextTooLong(tokens=4001, limit=4000)
        return objective

    queue_is(database, "objective = 'Much.', next_start_s = 5", "objective = 'Much.'", "")
    found = claim(database, prompt=measured)
    assert found is not None
    assert found.request.objective == make_request().objective
    told = rows(
        database,
        "SELECT state, end_reason, end_detail LIKE '%4001 tokens%at most 4000%',"
        " failed_at IS NOT NULL, next_start_s FROM jobs WHERE objective = 'Much.'",
    )
    assert told == [("failed", "context_too_long", True, True, None)] * 2
    assert rows(database, "SELECT job_id::text FROM epochs") == [(found.key.job_id,)]
    assert claim(database, slot="another", prompt=measured) is None
