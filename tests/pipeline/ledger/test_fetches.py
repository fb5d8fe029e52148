"""Links on their way: each held by one process, forgotten when the job moves on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pipeline.ledger import fetches, jobs, recordings, views
from pipeline.ledger.database import Database
from pipeline.ledger.errors import FetchLost, LedgerRefused
from pipeline.ledger.fetches import Claim, LinkedFile, Version
from pipeline.ledger.recordings import Recording
from pipeline.link import read_link
from pipeline.records import EndReason, JobState
from tests.pipeline.ledger import queued
from tests.pipeline.ledger.factories import digest, rows

URL = "https://media.test/private/call.mp4?token=hush"
VERSION = Version(validator='"v1"', total_bytes=1000, place_sha256=digest("place"))


def submit(database: Database, **given: Any) -> str:
    linked = LinkedFile(link=read_link(URL), filename="call.mp4")
    return queued.submit(database, recording=linked, **given)


def take(database: Database, *, lease_s: float = 60.0) -> Claim:
    claim = fetches.claim(database, lease_s=lease_s)
    assert claim is not None
    return claim


def begin_upload(database: Database) -> str:
    return recordings.begin_upload(database, owner="ana", filename="call.mp4")


def stored(database: Database, claim: Claim) -> Recording:
    """What the ingest process does with a whole file."""
    return recordings.finish_upload(
        database,
        begin_upload(database),
        sha256=digest("call"),
        size_bytes=1000,
        probe=None,
        then=lambda session, recording: fetches.finish(session, claim, recording),
    )


def row(database: Database, job_id: str) -> Any:
    (found,) = rows(database, "SELECT * FROM fetches WHERE job_id = :id", id=job_id)
    return found


def test_a_job_with_a_link_waits_and_no_worker_can_claim_it(database: Database) -> None:
    job_id = submit(database)
    assert jobs.state_of(database, job_id) is JobState.WAITING_FOR_RECORDING
    assert queued.claim(database) is None
    view = views.get(database, job_id, owner="ana")
    assert view.filename == "call.mp4"
    assert view.recording_id is None
    assert view.fetch is not None
    assert (view.fetch.host, view.fetch.attempts) == ("media.test", 0)
    assert "hush" not in repr(view)
    assert "private" not in repr(view)


def test_a_claim_has_what_a_fetch_needs_and_prints_nothing_of_it(database: Database) -> None:
    job_id = submit(database)
    claim = take(database)
    assert (claim.job_id, claim.owner, claim.filename) == (job_id, "ana", "call.mp4")
    assert claim.link == read_link(URL)
    assert (claim.attempts, claim.received_bytes, claim.version) == (1, 0, None)
    assert claim.elapsed_s < 5
    assert "hush" not in f"{claim!r} {claim.log_context()}"
    assert fetches.claim(database, lease_s=60) is None


def test_links_are_claimed_in_the_order_they_came(database: Database) -> None:
    asked = [submit(database) for _ in range(3)]
    assert [take(database).job_id for _ in asked] == asked


def test_many_who_claim_at_once_get_each_another_link(database: Database) -> None:
    asked = {submit(database) for _ in range(6)}
    with ThreadPoolExecutor(max_workers=8) as pool:
        claims = list(pool.map(lambda _: fetches.claim(database, lease_s=60), range(8)))
    taken = [claim.job_id for claim in claims if claim is not None]
    # A claim passes over a row that another has locked at that moment, and comes again later.
    while (late := fetches.claim(database, lease_s=60)) is not None:
        taken.append(late.job_id)
    assert sorted(taken) == sorted(asked)


def test_a_link_is_taken_again_only_once_its_lease_has_ended(database: Database) -> None:
    submit(database)
    first = take(database, lease_s=-1)
    second = take(database)
    assert second.attempts == 2
    assert second.lease != first.lease
    assert not fetches.renew(database, first, lease_s=60)
    assert not fetches.advance(database, first, received_bytes=5, total_bytes=None, version=None)
    assert not fetches.postpone(database, first, after_s=0)
    assert not fetches.give_back(database, first)
    assert not fetches.bind(database, first, begin_upload(database))
    assert not fetches.fail(database, first, end_reason=EndReason.LINK_FAILED, end_detail="late")
    with pytest.raises(FetchLost):
        stored(database, first)
    assert rows(database, "SELECT 1 FROM recordings") == []  # nothing of it was written
    assert fetches.renew(database, second, lease_s=60)


def test_a_renewed_lease_goes_on(database: Database) -> None:
    submit(database)
    claim = take(database, lease_s=-1)
    assert fetches.renew(database, claim, lease_s=60)
    assert fetches.claim(database, lease_s=60) is None


def test_what_was_received_is_there_for_the_next_attempt(database: Database) -> None:
    job_id = submit(database)
    claim, upload_id = take(database), begin_upload(database)
    assert fetches.bind(database, claim, upload_id)
    assert fetches.advance(database, claim, received_bytes=400, total_bytes=1000, version=VERSION)
    shown = views.get(database, job_id, owner="ana").fetch
    assert shown is not None
    assert (shown.received_bytes, shown.total_bytes) == (400, 1000)
    assert fetches.postpone(database, claim, after_s=0)
    again = take(database)
    assert (again.upload_id, again.received_bytes, again.version) == (upload_id, 400, VERSION)
    assert again.attempts == 2
    fetches.bind(database, again, begin_upload(database))
    fetches.postpone(database, again, after_s=0)
    assert (take(database).received_bytes, row(database, job_id).validator) == (0, None)


def test_what_was_received_counts_no_more_once_its_upload_has_expired(database: Database) -> None:
    submit(database)
    claim, upload_id = take(database), begin_upload(database)
    fetches.bind(database, claim, upload_id)
    fetches.advance(database, claim, received_bytes=400, total_bytes=1000, version=VERSION)
    fetches.postpone(database, claim, after_s=0)
    recordings.abandon_upload(database, upload_id)
    again = take(database)
    assert (again.upload_id, again.received_bytes, again.version) == (None, 0, None)


def test_a_link_that_was_put_off_waits(database: Database) -> None:
    submit(database)
    assert fetches.postpone(database, take(database), after_s=60)
    assert fetches.claim(database, lease_s=60) is None


def test_attempts_are_forgotten_where_one_got_on_and_where_none_was_made(
    database: Database,
) -> None:
    submit(database)
    fetches.postpone(database, take(database), after_s=0)
    claim = take(database)
    assert claim.attempts == 2
    assert fetches.give_back(database, claim)
    claim = take(database)
    assert claim.attempts == 2
    assert fetches.postpone(database, claim, after_s=0, is_new_start=True)
    assert take(database).attempts == 1


def test_the_job_is_queued_in_the_transaction_that_makes_the_recording(
    database: Database,
) -> None:
    job_id = submit(database)
    recording = stored(database, take(database))
    view = views.get(database, job_id, owner="ana")
    assert (view.state, view.recording_id) == (JobState.QUEUED, recording.id)
    assert view.times[JobState.WAITING_FOR_RECORDING] <= view.times[JobState.QUEUED]
    kept = row(database, job_id)
    assert (kept.url, kept.lease, kept.host) == (None, None, "media.test")
    assert kept.ended_at is not None
    assert queued.claimed(database).key.job_id == job_id


def test_a_job_that_fails_forgets_its_link(database: Database) -> None:
    job_id = submit(database)
    claim = take(database)
    assert fetches.fail(database, claim, end_reason=EndReason.LINK_REFUSED, end_detail="a web page")
    view = views.get(database, job_id, owner="ana")
    assert (view.state, view.end_reason) == (JobState.FAILED, "link_refused")
    assert view.end_detail == "a web page"
    assert row(database, job_id).url is None
    assert fetches.claim(database, lease_s=60) is None
    assert not fetches.renew(database, claim, lease_s=60)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_canceled_job_forgets_its_link_at_once(database: Database, is_held: bool) -> None:
    job_id = submit(database)
    claim = take(database) if is_held else None
    assert jobs.request_cancel(database, job_id) is JobState.CANCELED
    view = views.get(database, job_id, owner="ana")
    assert (view.state, view.end_reason) == (JobState.CANCELED, "canceled")
    assert row(database, job_id).url is None
    assert fetches.claim(database, lease_s=60) is None
    if claim is not None:
        assert not fetches.renew(database, claim, lease_s=60)
        with pytest.raises(FetchLost):
            stored(database, claim)
        assert jobs.state_of(database, job_id) is JobState.CANCELED


def test_a_cancel_and_an_end_at_once_leave_one_of_both(database: Database) -> None:
    for _ in range(5):
        job_id = submit(database)
        claim = take(database)

        def end(claim: Claim = claim) -> bool:
            reason = EndReason.LINK_FAILED
            return fetches.fail(database, claim, end_reason=reason, end_detail="late")

        with ThreadPoolExecutor(max_workers=2) as pool:
            ended = pool.submit(end)
            asked = pool.submit(jobs.request_cancel, database, job_id)
        state = jobs.state_of(database, job_id)
        assert (state is JobState.FAILED) == ended.result()
        assert asked.result() is state


@pytest.mark.parametrize(
    "values",
    [
        "url = NULL",
        "ended_at = now()",
        "leased_until = now()",
        "received_bytes = -1",
        "received_bytes = 2, total_bytes = 1",
        "validator = 'x', total_bytes = 5",
        f"validator = 'x', place_sha256 = '{digest('x')}'",
        "place_sha256 = 'x', validator = 'x', total_bytes = 5",
    ],
)
def test_no_row_contradicts_itself(database: Database, values: str) -> None:
    job_id = submit(database)
    with pytest.raises(LedgerRefused):
        rows(database, f"UPDATE fetches SET {values} WHERE job_id = :id RETURNING 1", id=job_id)
