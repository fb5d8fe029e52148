"""Fifty claims at the same moment, of one slot and of fifty, and in which order jobs are begun.

What is promised: claims that win at once have the first jobs of the queue, exactly so many and no
others. Of claims of one slot only one can win; each of them has looked at another job by then, so
that it may be any of the first ones, as many as there were claims. Whatever was passed over that
way is not put back behind anything: the next claim by itself takes the first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pipeline.ledger import epochs, jobs
from pipeline.ledger.claims import Claimed
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import SlotBusy
from pipeline.records import EndReason, JobState
from tests.pipeline.ledger.factories import rows
from tests.pipeline.ledger.queued import claim, submit, upload

CLAIMS = 50
JOBS = 50
AT_ONCE = (CLAIMS, 1, CLAIMS, 1, 10, 1, 10, 1, 2, 1)
"""How many claim the slot in each turn; one by itself in every turn after these."""

OTHERS = 10
"""Jobs that are left when every slot has one."""


@pytest.fixture
def databases(database_url: str) -> Iterator[list[Database]]:
    opened = [connect(database_url) for _ in range(CLAIMS)]
    yield opened
    for database in opened:
        database.dispose()


def queued(database: Database, count: int) -> list[str]:
    """Jobs of three priorities, as they stand in the queue."""
    recording = upload(database)
    submitted = [submit(database, recording=recording) for _ in range(count)]
    with database.transaction() as session:
        for place, job_id in enumerate(submitted):
            session.connection().exec_driver_sql(
                "UPDATE jobs SET priority = %s WHERE id = %s", (place % 3, job_id)
            )
    return [job_id for rank in range(3) for job_id in submitted[rank::3]]


def end(database: Database, won: Claimed) -> None:
    jobs.finish(database, won.key, outcome=JobState.FAILED, end_reason=EndReason.DECODE_ERROR)
    epochs.release(database, won.key)


def test_fifty_claims_at_once_on_one_slot_run_fifty_jobs_in_order(
    databases: list[Database],
) -> None:
    first = databases[0]
    waiting = queued(first, JOBS)
    for turn in range(JOBS):
        at_once = AT_ONCE[turn] if turn < len(AT_ONCE) else 1
        (won,) = claimed_by(databases[:at_once], slots=["GPU-1"] * at_once)
        [(live,)] = rows(first, "SELECT count(*) FROM epochs WHERE released_at IS NULL")
        assert live == 1
        assert won.key.job_id in waiting[:at_once]
        waiting.remove(won.key.job_id)
        end(first, won)
    assert waiting == []
    assert rows(first, "SELECT count(*), max(number) FROM epochs") == [(JOBS, 1)]


def test_fifty_slots_at_once_begin_the_first_fifty_jobs_and_no_other(
    databases: list[Database],
) -> None:
    first = databases[0]
    waiting = queued(first, CLAIMS + OTHERS)
    slots = [f"GPU-{number}" for number in range(CLAIMS)]
    won = claimed_by(databases, slots=slots)
    assert sorted(one.key.job_id for one in won) == sorted(waiting[:CLAIMS])
    for one in won:
        end(first, one)
    # Ten at once of what is left, by fifty slots: forty find nothing, and nobody has an old one.
    left = claimed_by(databases, slots=slots)
    assert sorted(one.key.job_id for one in left) == sorted(waiting[CLAIMS:])
    assert rows(first, "SELECT count(*), max(number) FROM epochs") == [(CLAIMS + OTHERS, 1)]


def test_a_job_that_another_claim_overtakes_is_the_next_one(databases: list[Database]) -> None:
    """The claim that had the first job in hand comes too late to the slot."""
    slow, quick, *_ = databases
    waiting = queued(slow, 5)
    has_looked, may_go_on = threading.Event(), threading.Event()
    told: list[BaseException | Claimed | None] = []

    def prompt(*_: object) -> str:
        has_looked.set()
        assert may_go_on.wait(60)
        return "prompt"

    def run() -> None:
        try:
            told.append(claim(slow, slot="GPU-1", prompt=prompt))
        except SlotBusy as refused:
            told.append(refused)

    thread = threading.Thread(target=run)
    thread.start()
    assert has_looked.wait(60)
    won = claim(quick, slot="GPU-1")
    may_go_on.set()
    thread.join()
    assert won is not None
    assert won.key.job_id == waiting.pop(1)
    assert [type(one) for one in told] == [SlotBusy]
    end(quick, won)
    for job_id in waiting:
        following = claim(quick, slot="GPU-1")
        assert following is not None
        assert following.key.job_id == job_id
        end(quick, following)


def claimed_by(databases: list[Database], *, slots: list[str]) -> list[Claimed]:
    """Who of them won; the others found the slot busy, or no job in nobody's hands."""
    barrier = threading.Barrier(len(databases))
    won: list[Claimed] = []
    faults: list[BaseException] = []

    def run(database: Database, slot: str) -> None:
        barrier.wait()
        try:
            found = claim(database, slot=slot, host="host")
        except SlotBusy:
            return
        except BaseException as error:
            faults.append(error)
            raise
        if found is not None:
            won.append(found)

    threads = [
        threading.Thread(target=run, args=pair) for pair in zip(databases, slots, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    return won
