"""A host that does not come back is forgotten on a person's word, and no other one ever."""

from __future__ import annotations

import pytest

from pipeline.errors import FenceLost
from pipeline.ledger import audit, deletion, epochs, hosts, jobs, workers
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import DeletionRefused, HostAlive, HostUnknown, JobUnknown
from pipeline.records import EndReason, JobState, Phase
from tests.pipeline.ledger.factories import rows, start

GONE = "gone.example"


def silent(database: Database, key: EpochKey, *, worker_s: int = 700, epoch_s: int = 700) -> None:
    """A worker of that host and its epoch, last heard of so long ago."""
    workers.register(database, host=GONE, slot="gone:0", engine="rehearsal", pid=4711)
    rows(
        database,
        f"UPDATE workers SET alive_at = now() - interval '{worker_s} s'"
        f" WHERE host = '{GONE}' RETURNING 1",
    )
    rows(
        database,
        f"UPDATE epochs SET alive_at = now() - interval '{epoch_s} s'"
        f" WHERE job_id = '{key.job_id}' RETURNING 1",
    )


def test_what_it_held_is_ended_and_freed_and_the_job_can_be_deleted(database: Database) -> None:
    key = start(database, host=GONE, slot="gone:0")
    other = start(database)
    silent(database, key)
    with pytest.raises(DeletionRefused):
        deletion.delete_job(database, key.job_id, owner=None)
    assert hosts.forget(database, GONE) == hosts.Forgotten(slots=1, epochs=1)
    with pytest.raises(FenceLost):
        epochs.enter(database, key, Phase.DRAIN)
    assert [epoch.key for epoch in epochs.unreleased(database)] == [other]
    assert workers.listed(database) == ()
    ended = rows(database, "SELECT state, end_reason FROM jobs WHERE state <> 'running'")
    assert ended == [(JobState.FAILED.value, EndReason.WORKER_LOST.value)]
    deletion.delete_job(database, key.job_id, owner=None)
    with pytest.raises(JobUnknown):
        deletion.delete_job(database, key.job_id, owner=None)
    (entry,) = [one for one in audit.listed(database, limit=9) if one.action == "host_forgotten"]
    assert (entry.subject, entry.detail) == (GONE, {"slots": 1, "epochs": 1})
    with pytest.raises(HostUnknown):
        hosts.forget(database, GONE)


@pytest.mark.parametrize("silence", [{"worker_s": 500}, {"epoch_s": 500}])
def test_one_that_was_heard_of_lately_is_not(database: Database, silence: dict[str, int]) -> None:
    key = start(database, host=GONE, slot="gone:0")
    silent(database, key, **silence)
    with pytest.raises(HostAlive, match="600"):
        hosts.forget(database, GONE)
    assert len(epochs.unreleased(database)) == len(workers.listed(database)) == 1
    epochs.enter(database, key, Phase.DRAIN)


def test_what_was_ended_before_keeps_its_end(database: Database) -> None:
    key = start(database, host=GONE, slot="gone:0")
    jobs.give_up(database, key, end_reason=EndReason.UNIT_TIMEOUT, end_detail="too long")
    silent(database, key)
    assert hosts.forget(database, GONE).epochs == 1
    assert epochs.unreleased(database) == ()
    assert rows(database, "SELECT end_reason FROM epochs") == [(EndReason.UNIT_TIMEOUT.value,)]
