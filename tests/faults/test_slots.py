"""Fifty workers' claims of one slot at the same moment, until fifty jobs are done."""

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
ROUNDS = 5
"""Of fifty at once; the other jobs are claimed by one after the other."""


@pytest.fixture
def databases(database_url: str) -> Iterator[list[Database]]:
    opened = [connect(database_url) for _ in range(CLAIMS)]
    yield opened
    for database in opened:
        database.dispose()


def test_fifty_claims_at_once_on_one_slot_run_fifty_jobs_in_order(
    databases: list[Database],
) -> None:
    first = databases[0]
    recording = upload(first)
    submitted = [submit(first, recording=recording) for _ in range(JOBS)]
    for place, job_id in enumerate(submitted):
        with first.transaction() as session:
            session.connection().exec_driver_sql(
                "UPDATE jobs SET priority = %s WHERE id = %s", (place % 3, job_id)
            )
    waiting = [job_id for rank in range(3) for job_id in submitted[rank::3]]
    for turn in range(JOBS):
        at_once = CLAIMS if turn < ROUNDS else 1
        won = claimed_by(databases[:at_once])
        assert len(won) == 1
        [(live,)] = rows(first, "SELECT count(*) FROM epochs WHERE released_at IS NULL")
        assert live == 1
        # Each of many looks at another job, and one of them has the slot; alone it is the first.
        assert won[0].key.job_id in waiting[:at_once]
        waiting.remove(won[0].key.job_id)
        jobs.finish(first, won[0].key, outcome=JobState.FAILED, end_reason=EndReason.DECODE_ERROR)
        epochs.release(first, won[0].key)
    assert waiting == []
    assert rows(first, "SELECT count(*), max(number) FROM epochs") == [(JOBS, 1)]


def claimed_by(databases: list[Database]) -> list[Claimed]:
    """Who of them won; the others found the slot busy, or the only jobs in other hands."""
    barrier = threading.Barrier(len(databases))
    won: list[Claimed] = []
    faults: list[BaseException] = []

    def run(database: Database) -> None:
        barrier.wait()
        try:
            found = claim(database, slot="GPU-1", host="host")
        except SlotBusy:
            return
        except BaseException as error:
            faults.append(error)
            raise
        if found is not None:
            won.append(found)

    threads = [threading.Thread(target=run, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    return won
