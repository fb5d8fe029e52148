"""Jobs: how one starts, every pair of states, and how one ends with its epoch."""

from __future__ import annotations

import itertools
import uuid

import pytest

from pipeline.errors import FenceLost
from pipeline.ledger import dossiers, epochs, jobs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import EdgeRefused, JobUnknown, LedgerRefused, SlotBusy
from pipeline.records import EndReason, JobState, Phase, SessionEnd
from tests.pipeline.ledger.factories import (
    digest,
    make_holding,
    make_recording,
    rows,
    start,
)

# Copied by hand from the table of states in the design, so that the code cannot vouch for itself.
DESIGN = {
    "waiting_for_recording": {"queued", "failed", "canceled"},
    "queued": {"running", "canceled", "failed"},
    "running": {"finalizing", "canceling", "failed"},
    "canceling": {"canceled"},
    "finalizing": {"succeeded", "canceled", "failed"},
    "succeeded": {"queued"},
    "failed": {"queued"},
    "canceled": {"queued"},
}
PAIRS = list(itertools.product(JobState, JobState))


def put(database: Database, key: EpochKey, state: JobState) -> None:
    """Bring the job into a state as later issues will, past the code under test."""
    column = {"waiting_for_recording": "waiting_at"}.get(state.value, f"{state.value}_at")
    statement = (
        f"UPDATE jobs SET state = :state, {column} = now(), end_reason = 'completed'"
        " WHERE id = :id RETURNING id"
    )
    assert rows(database, statement, state=state.value, id=key.job_id)


def test_a_local_job_is_running_before_anybody_can_claim_it(database: Database) -> None:
    key = start(database)
    assert key.number == 1
    [job] = rows(database, "SELECT * FROM jobs")
    assert (job.owner, job.state, job.next_epoch) == ("local", "running", 2)
    assert job.queued_at is None
    assert job.running_at == job.created_at
    [epoch] = rows(database, "SELECT * FROM epochs")
    assert (epoch.slot, epoch.host, epoch.pid, epoch.phase) == ("host:0", "host", 4711, "claim")
    assert (epoch.fenced_at, epoch.ended_at, epoch.released_at) == (None, None, None)
    [blob] = rows(database, "SELECT * FROM blobs")
    assert (blob.sha256, blob.size_bytes, blob.stored_at) == (
        digest("recording"),
        7_000_000_000,
        None,
    )


def test_a_second_epoch_on_a_slot_is_refused_and_leaves_nothing(database: Database) -> None:
    key = start(database)
    with pytest.raises(SlotBusy):
        start(database, recording=make_recording(sha256=digest("other")))
    assert rows(database, "SELECT count(*) FROM jobs") == [(1,)]
    assert rows(database, "SELECT count(*) FROM blobs") == [(1,)]
    start(database, slot="host:1")
    epochs.end(database, key, end_reason=EndReason.COMPLETED)
    with pytest.raises(SlotBusy):
        start(database)
    assert epochs.release(database, key)
    start(database)


def test_the_same_bytes_are_one_recording_and_each_job_keeps_its_name(database: Database) -> None:
    first = start(database, recording=make_recording(filename="a.mp4"), slot="a")
    second = start(database, recording=make_recording(filename="b.mp4"), slot="b")
    assert rows(database, "SELECT filename FROM recordings") == [("a.mp4",)]
    assert dossiers.load(database, first.job_id).recording.filename == "a.mp4"
    assert dossiers.load(database, second.job_id).recording.filename == "b.mp4"


def test_two_holdings_of_one_id_are_refused(database: Database) -> None:
    with pytest.raises(LedgerRefused) as caught:
        start(database, holdings=(make_holding(), make_holding()))
    assert caught.value.constraint == "pk_holdings"
    assert rows(database, "SELECT count(*) FROM jobs") == [(0,)]


def test_the_table_of_edges_is_the_designs() -> None:
    assert {
        source.value: {target.value for target in targets} for source, targets in jobs.EDGES.items()
    } == DESIGN


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_pair_of_states(
    database: Database, key: EpochKey, source: JobState, target: JobState
) -> None:
    put(database, key, source)
    job_id = key.job_id
    if target.value not in DESIGN[source.value]:
        with pytest.raises(EdgeRefused) as caught:
            jobs.move(database, job_id, source=source, target=target)
        assert all(state in str(caught.value) for state in DESIGN[source.value])
        assert jobs.state_of(database, job_id) is source
        return
    assert jobs.move(database, job_id, source=source, target=target, end_reason=EndReason.INTERNAL)
    assert jobs.state_of(database, job_id) is target
    assert not jobs.move(database, job_id, source=source, target=target)
    [row] = rows(
        database,
        "SELECT to_jsonb(jobs)->>:column FROM jobs",
        column={"waiting_for_recording": "waiting_at"}.get(target.value, f"{target.value}_at"),
    )
    assert row[0] is not None


def test_a_move_from_a_state_the_job_is_not_in_loses(database: Database, key: EpochKey) -> None:
    assert not jobs.move(database, key.job_id, source=JobState.QUEUED, target=JobState.RUNNING)
    assert jobs.state_of(database, key.job_id) is JobState.RUNNING


def test_an_end_without_a_reason_is_refused(database: Database, key: EpochKey) -> None:
    with pytest.raises(LedgerRefused) as caught:
        jobs.move(database, key.job_id, source=JobState.RUNNING, target=JobState.FAILED)
    assert caught.value.constraint == "ck_jobs_ended_with_reason"


def test_a_job_without_a_recording_cannot_be_queued(database: Database, key: EpochKey) -> None:
    put(database, key, JobState.WAITING_FOR_RECORDING)
    rows(database, "UPDATE jobs SET recording_id = NULL RETURNING id")
    with pytest.raises(LedgerRefused) as caught:
        jobs.move(
            database, key.job_id, source=JobState.WAITING_FOR_RECORDING, target=JobState.QUEUED
        )
    assert caught.value.constraint == "ck_jobs_has_recording_before_queue"


def test_a_worker_whose_epoch_is_fenced_moves_nothing(database: Database, key: EpochKey) -> None:
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        jobs.move(
            database,
            key.job_id,
            source=JobState.RUNNING,
            target=JobState.FINALIZING,
            under=key,
        )
    assert jobs.state_of(database, key.job_id) is JobState.RUNNING


def finalize(database: Database, key: EpochKey) -> None:
    assert jobs.move(
        database, key.job_id, source=JobState.RUNNING, target=JobState.FINALIZING, under=key
    )


def test_a_natural_end(database: Database, key: EpochKey) -> None:
    finalize(database, key)
    session_end = SessionEnd(is_audio_consumed=True, is_utterance_open=False)
    state = jobs.finish(
        database,
        key,
        outcome=JobState.SUCCEEDED,
        end_reason=EndReason.COMPLETED,
        session_end=session_end,
    )
    assert state is JobState.SUCCEEDED
    dossier = dossiers.load(database, key.job_id)
    assert dossier.state is JobState.SUCCEEDED
    assert dossier.ended_at is not None
    assert dossier.epochs[0].session_end == session_end
    assert dossier.epochs[0].end_reason == "completed"
    epochs.enter(database, key, Phase.PUBLISH)
    assert epochs.release(database, key)


def test_success_from_a_state_that_does_not_lead_there_changes_nothing(
    database: Database, key: EpochKey
) -> None:
    with pytest.raises(EdgeRefused):
        jobs.finish(database, key, outcome=JobState.SUCCEEDED, end_reason=EndReason.COMPLETED)
    assert rows(database, "SELECT ended_at, fenced_at FROM epochs") == [(None, None)]


def test_a_fault_while_canceling_ends_canceled_and_the_epoch_keeps_its_reason(
    database: Database, key: EpochKey
) -> None:
    assert jobs.request_cancel(database, key.job_id) is JobState.CANCELING
    state = jobs.finish(database, key, outcome=JobState.FAILED, end_reason=EndReason.ENGINE_ERROR)
    assert state is JobState.CANCELED
    dossier = dossiers.load(database, key.job_id)
    assert dossier.end_reason == "canceled"
    assert dossier.epochs[0].end_reason == "engine_error"


def test_a_cancel_during_finalizing_wins_over_success(database: Database, key: EpochKey) -> None:
    finalize(database, key)
    assert jobs.request_cancel(database, key.job_id) is JobState.FINALIZING
    state = jobs.finish(database, key, outcome=JobState.SUCCEEDED, end_reason=EndReason.COMPLETED)
    assert state is JobState.CANCELED


def test_a_cancel_during_finalizing_wins_over_a_lost_worker(
    database: Database, key: EpochKey
) -> None:
    finalize(database, key)
    jobs.request_cancel(database, key.job_id)
    state = jobs.give_up(database, key, end_reason=EndReason.WORKER_LOST)
    assert state is JobState.CANCELED
    [epoch] = dossiers.load(database, key.job_id).epochs
    assert epoch.end_reason == "worker_lost"


def test_a_local_stop_passes_through_canceling(database: Database, key: EpochKey) -> None:
    state = jobs.finish(database, key, outcome=JobState.CANCELED, end_reason=EndReason.CANCELED)
    assert state is JobState.CANCELED
    [job] = rows(database, "SELECT * FROM jobs")
    assert job.canceling_at == job.canceled_at == job.cancel_requested_at


@pytest.mark.parametrize("state", [JobState.WAITING_FOR_RECORDING, JobState.QUEUED])
def test_what_has_not_begun_is_canceled_at_once(
    database: Database, key: EpochKey, state: JobState
) -> None:
    put(database, key, state)
    assert jobs.request_cancel(database, key.job_id) is JobState.CANCELED
    assert rows(database, "SELECT end_reason FROM jobs") == [("canceled",)]


@pytest.mark.parametrize("state", sorted(jobs.ENDED))
def test_what_has_ended_is_not_canceled(database: Database, key: EpochKey, state: JobState) -> None:
    put(database, key, state)
    assert jobs.request_cancel(database, key.job_id) is state
    assert rows(database, "SELECT cancel_requested_at FROM jobs") == [(None,)]


def test_a_rerun_forgets_the_cancel_and_the_end(database: Database, key: EpochKey) -> None:
    jobs.request_cancel(database, key.job_id)
    jobs.finish(database, key, outcome=JobState.CANCELED, end_reason=EndReason.CANCELED)
    assert jobs.move(database, key.job_id, source=JobState.CANCELED, target=JobState.QUEUED)
    assert rows(database, "SELECT cancel_requested_at, end_reason FROM jobs") == [(None, None)]
    assert dossiers.load(database, key.job_id).ended_at is None


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (JobState.RUNNING, JobState.FAILED),
        (JobState.FINALIZING, JobState.FAILED),
        (JobState.CANCELING, JobState.CANCELED),
    ],
)
def test_a_lost_worker_is_given_up_once(
    database: Database, key: EpochKey, state: JobState, after: JobState
) -> None:
    put(database, key, state)
    reason = EndReason.WORKER_LOST
    assert jobs.give_up(database, key, end_reason=reason, end_detail="no sign of life") is after
    assert jobs.give_up(database, key, end_reason=reason) is None
    [epoch] = rows(database, "SELECT * FROM epochs")
    assert (epoch.end_reason, epoch.end_detail) == ("worker_lost", "no sign of life")
    assert epoch.released_at is None


@pytest.mark.parametrize("job_id", [str(uuid.UUID(int=1)), "1", "", "'; DROP TABLE jobs", "\x00"])
def test_an_unknown_job_is_unknown(database: Database, job_id: str) -> None:
    for ask in (jobs.state_of, jobs.request_cancel, dossiers.load):
        with pytest.raises(JobUnknown):
            ask(database, job_id)
