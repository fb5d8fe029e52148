"""Reruns: of ended jobs only, from where was said, once."""

from __future__ import annotations

import pytest

from pipeline.ledger import epochs, jobs, reruns
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import JobUnknown, RerunRefused
from pipeline.ledger.reruns import RerunStart
from pipeline.records import EndReason, JobState, MediaEnd, Options, Probe
from tests.pipeline.ledger.factories import (
    make_probe,
    make_reply,
    make_request,
    make_unit,
    record_unit,
    rows,
    start,
)
from tests.pipeline.ledger.queued import claimed, fail, submit, upload
from tests.pipeline.ledger.racing import held_at

NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"


def ask(
    database: Database, job_id: str, start: RerunStart | int = RerunStart.LAST_COMPLETED
) -> int:
    return reruns.request(database, job_id, start=start, reason="it stopped", by="adam")


def make_media_end(source_end_ms: int) -> MediaEnd:
    return MediaEnd(
        source_end_ms=source_end_ms,
        units=0,
        real_samples=0,
        filled_samples=0,
        synthetic_samples=0,
        own_frames=0,
        held_frames=0,
        clipped_samples=0,
        replaced_samples=0,
        remarks=(),
    )


def failed(database: Database, *, units: int = 2, start_s: int = 10) -> EpochKey:
    """The first epoch of a job that failed after so many units from second 10 on."""
    submit(database, request=make_request(options=Options(start_s=start_s)))
    key = claimed(database).key
    record_units(database, key, units=units, start_s=start_s)
    fail(database, key)
    return key


def record_units(database: Database, key: EpochKey, *, units: int, start_s: int) -> None:
    for sequence in range(units):
        record_unit(database, key, sequence, unit=make_unit(start_s + sequence))


def test_a_failed_job_is_queued_again_and_its_next_claim_goes_on(database: Database) -> None:
    key = failed(database)
    assert ask(database, key.job_id) == 2
    assert jobs.state_of(database, key.job_id) is JobState.QUEUED
    again = claimed(database)
    assert (again.key.job_id, again.key.number, again.start_s) == (key.job_id, 2, 12)
    assert rows(database, "SELECT next_epoch, next_start_s FROM jobs") == [(3, None)]


@pytest.mark.parametrize(
    ("start", "start_s"),
    [(RerunStart.START, 10), (RerunStart.LAST_COMPLETED, 12), (0, 0), (11, 11), (3599, 3599)],
)
def test_it_begins_where_it_was_told_to(
    database: Database, start: RerunStart | int, start_s: int
) -> None:
    key = failed(database)
    ask(database, key.job_id, start)
    assert claimed(database).start_s == start_s


def test_last_completed_without_a_unit_is_where_that_epoch_began(database: Database) -> None:
    key = failed(database)
    ask(database, key.job_id, 500)
    fail(database, claimed(database).key)
    ask(database, key.job_id)
    assert claimed(database).start_s == 500


def test_last_completed_counts_source_seconds_not_the_drain(database: Database) -> None:
    submit(database)
    key = claimed(database).key
    record_unit(database, key, 0)
    record_unit(database, key, 1, unit=None, reply=make_reply(1, drain=1))
    fail(database, key)
    ask(database, key.job_id)
    assert claimed(database).start_s == 1


def test_last_completed_of_a_job_that_never_ran_is_its_own_start(database: Database) -> None:
    job_id = submit(database, request=make_request(options=Options(start_s=10)))
    jobs.request_cancel(database, job_id)
    assert ask(database, job_id) == 1
    assert claimed(database).start_s == 10


def test_the_round_before_is_forgotten_by_the_job_and_kept_by_its_epoch(
    database: Database,
) -> None:
    key = failed(database)
    jobs.request_cancel(database, key.job_id)
    ask(database, key.job_id)
    [row] = rows(
        database,
        "SELECT end_reason, end_detail, cancel_requested_at, running_at, canceling_at,"
        " finalizing_at, succeeded_at, failed_at, canceled_at FROM jobs",
    )
    assert set(row) == {None}
    [epoch] = rows(database, "SELECT end_reason, end_detail, ended_at IS NULL FROM epochs")
    assert epoch == ("decode_error", "why", False)


def test_a_canceled_jobs_rerun_is_not_canceled_again(database: Database) -> None:
    job_id = submit(database)
    jobs.request_cancel(database, job_id)
    ask(database, job_id)
    assert record_unit(database, claimed(database).key) is False


@pytest.mark.parametrize("state", ["queued", "running", "finalizing"])
def test_a_job_that_has_not_ended_is_refused(database: Database, state: str) -> None:
    job_id = submit(database)
    if state != "queued":
        key = claimed(database).key
    if state == "finalizing":
        assert jobs.move(
            database, job_id, source=JobState.RUNNING, target=JobState.FINALIZING, under=key
        )
    with pytest.raises(RerunRefused, match=state) as refusal:
        ask(database, job_id)
    assert refusal.value.code == "job_not_ended"
    assert rows(database, "SELECT count(*) FROM reruns") == [(0,)]


def ended_at(database: Database, *, source_end_ms: int) -> EpochKey:
    """An epoch that completed seconds 0 and 1 and measured the end of the source."""
    submit(database)
    key = claimed(database).key
    record_units(database, key, units=2, start_s=0)
    jobs.finish(
        database,
        key,
        outcome=JobState.FAILED,
        end_reason=EndReason.ENGINE_ERROR,
        media_end=make_media_end(source_end_ms),
    )
    epochs.release(database, key)
    return key


@pytest.mark.parametrize("source_end_ms", [1001, 2000])
def test_nothing_is_left_to_run_at_the_end_of_the_source(
    database: Database, source_end_ms: int
) -> None:
    key = ended_at(database, source_end_ms=source_end_ms)
    with pytest.raises(RerunRefused, match="0 to 1 would be accepted") as refusal:
        ask(database, key.job_id)
    assert refusal.value.code == "at_source_end"
    assert jobs.state_of(database, key.job_id) is JobState.FAILED


def test_one_millisecond_of_source_is_enough(database: Database) -> None:
    key = ended_at(database, source_end_ms=2001)
    ask(database, key.job_id)
    assert claimed(database).start_s == 2


def test_a_measured_end_outweighs_the_packets(database: Database) -> None:
    # The probe says 3,600 s.
    key = ended_at(database, source_end_ms=4_000_000)
    ask(database, key.job_id, 3999)
    assert claimed(database).start_s == 3999


def test_the_packets_end_holds_where_none_was_measured(database: Database) -> None:
    key = failed(database)
    with pytest.raises(RerunRefused) as refusal:
        ask(database, key.job_id, 3600)
    assert refusal.value.code == "at_source_end"


@pytest.mark.parametrize("probe", [None, make_probe()])
def test_an_unknown_end_refuses_no_second(database: Database, probe: Probe | None) -> None:
    recording = upload(database, probe=probe)
    job_id = submit(database, recording=recording)
    jobs.request_cancel(database, job_id)
    if probe is None:
        ask(database, job_id, 100_000)
        assert claimed(database).start_s == 100_000
    else:
        with pytest.raises(RerunRefused):
            ask(database, job_id, 100_000)


def test_a_second_before_the_source_is_refused(database: Database) -> None:
    key = failed(database)
    with pytest.raises(RerunRefused, match="0 would be accepted") as refusal:
        ask(database, key.job_id, -1)
    assert refusal.value.code == "start_refused"


def test_a_recording_that_omnai_holds_no_copy_of_is_refused(database: Database) -> None:
    key = start(database)
    fail(database, key)
    with pytest.raises(RerunRefused) as refusal:
        ask(database, key.job_id)
    assert refusal.value.code == "recording_not_stored"


@pytest.mark.parametrize("job_id", [NOBODY, "x"])
def test_no_job_has_no_rerun(database: Database, job_id: str) -> None:
    with pytest.raises(JobUnknown):
        ask(database, job_id)


def test_of_two_admins_at_once_one_is_refused(database: Database) -> None:
    key = failed(database)
    call = lambda: ask(database, key.job_id)  # noqa: E731
    outcomes = held_at(database, "SELECT 1 FROM jobs FOR UPDATE", call, call)
    assert [outcome for outcome in outcomes if outcome == 2] == [2]
    [refusal] = [outcome for outcome in outcomes if isinstance(outcome, RerunRefused)]
    assert refusal.code == "job_not_ended"
    assert rows(database, "SELECT count(*) FROM reruns") == [(1,)]


def test_who_asked_for_what_and_why_is_kept(database: Database) -> None:
    key = failed(database)
    ask(database, key.job_id, 3)
    jobs.request_cancel(database, key.job_id)
    ask(database, key.job_id, 4)
    listed = reruns.listed(database, key.job_id)
    # The first was canceled before a worker opened its epoch, so its number was never used.
    assert [(rerun.epoch, rerun.start_s) for rerun in listed] == [(2, 3), (2, 4)]
    assert {(rerun.reason, rerun.requested_by) for rerun in listed} == {("it stopped", "adam")}
    assert claimed(database).start_s == 4


def test_an_epoch_number_is_never_used_twice(database: Database) -> None:
    key = failed(database)
    numbers = []
    for _ in range(3):
        numbers.append(ask(database, key.job_id, 0))
        again = claimed(database)
        assert again.key.number == numbers[-1]
        fail(database, again.key)
    assert numbers == [2, 3, 4]
