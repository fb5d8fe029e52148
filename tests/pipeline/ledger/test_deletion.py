"""Deletion: every row of a job or none, nothing of anybody else's, and nothing that is held."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Table, delete, func, insert, select

from pipeline.ledger import briefs, deletion, epochs, jobs, keeping, notes, recordings, reruns
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import (
    DeletionRefused,
    FindingUnknown,
    JobUnknown,
    RecordingUnknown,
)
from pipeline.ledger.schema import (
    AuditRow,
    Base,
    BlobRow,
    FetchRow,
    IdempotencyRow,
    JobRow,
    RecordingRow,
    UploadRow,
)
from pipeline.records import EndReason, Gap, JobState, NoteAction
from tests.pipeline.ledger.factories import (
    cited,
    digest,
    make_evidence,
    make_finding,
    make_frame,
    make_origin,
    make_recording,
    record_unit,
    rows,
    start,
)
from tests.pipeline.ledger.racing import held_at

OWNER = jobs.LOCAL_OWNER
NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"


def full_job(database: Database, seed: str) -> EpochKey:
    """An ended job with rows in every table."""
    key = start(database, recording=make_recording(sha256=digest(seed)), slot=f"host:{seed}")
    frame = make_frame(0)
    origin = make_origin(frames=(cited(frame),))
    texts = [make_finding(origin=origin), make_evidence(block=1, origin=origin)]
    record_unit(database, key, texts=texts, frames=[frame])
    epochs.record_gap(database, key, Gap(start_ms=1000, end_ms=40_000))
    end(database, key)
    notes.add(
        database,
        key.job_id,
        (1, 0, 0),
        action=NoteAction.NOTE,
        text="Seen.",
        author="ana",
        actor=None,
    )
    briefs.store(
        database,
        key.job_id,
        status="partial",
        document=b"{}",
        canonical_sha256=digest("brief"),
        release="1",
    )
    upload_id = recordings.begin_upload(database, owner=OWNER, filename="secret name.mp4")
    recordings.abandon_upload(database, upload_id)
    finished = recordings.begin_upload(database, owner=OWNER, filename="secret name.mp4")
    recordings.finish_upload(database, finished, sha256=digest(seed), size_bytes=1, probe=None)
    with database.transaction() as session:
        session.execute(
            insert(FetchRow).values(
                job_id=key.job_id, host="example.org", ended_at=func.now(), upload_id=upload_id
            )
        )
        for route, place in (
            ("jobs", f"/v1/jobs/{key.job_id}"),
            (f"epochs/{key.job_id}", None),
            ("other", f"/v1/jobs/{key.job_id}/findings/1.0.0/notes"),
        ):
            answered = {"Location": place} if place else None
            session.execute(
                insert(IdempotencyRow).values(
                    owner=OWNER,
                    route=route,
                    key=seed,
                    payload_sha256=digest(route),
                    attempt=NOBODY,
                    answered_at=func.now() if answered else None,
                    status=202 if answered else None,
                    body=b"{}" if answered else None,
                    headers=answered,
                )
            )
    # Where a rerun goes back to the queue and is canceled there, its row stays.
    rows(
        database,
        "UPDATE blobs SET stored_at = now() WHERE sha256 = :sha256 RETURNING 1",
        sha256=digest(seed),
    )
    reruns.request(database, key.job_id, start=0, reason="Once more.", by="root")
    assert jobs.request_cancel(database, key.job_id) is JobState.CANCELED
    return key


def end(database: Database, key: EpochKey) -> None:
    jobs.give_up(database, key, end_reason=EndReason.WORKER_LOST)
    epochs.release(database, key)


def counts(database: Database, tables: tuple[Table, ...]) -> dict[str, int]:
    with database.transaction() as session:
        return {
            table.name: session.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        }


def recording_of(database: Database, key: EpochKey) -> str:
    found = rows(database, "SELECT recording_id::text FROM jobs WHERE id = :id", id=key.job_id)
    return str(found[0][0])


EVERYTHING = (
    *deletion.UNDER_JOB,
    JobRow.__table__,
    RecordingRow.__table__,
    UploadRow.__table__,
    IdempotencyRow.__table__,
)


def test_no_table_that_hangs_on_a_job_or_a_recording_is_unknown_to_the_deletion() -> None:
    covered = {*deletion.UNDER_JOB, *deletion.UNDER_RECORDING, JobRow.__table__}
    roots = {JobRow.__table__, RecordingRow.__table__}
    hanging: set[Table] = set()
    for table in Base.metadata.sorted_tables:  # what is referred to comes first
        referred = {key.referred_table for key in table.foreign_key_constraints}
        named = {"job_id", "epoch", "recording_id"} & set(table.columns.keys())
        if named or referred & (roots | hanging):
            hanging.add(table)
    # An upload that is known to a job's fetch alone goes with it by its id.
    assert hanging - roots - covered == set()
    assert {table.name for table in covered} >= {"units", "finding_notes", "reruns", "uploads"}


def test_a_deleted_job_leaves_no_row_and_another_ones_stay(database: Database) -> None:
    kept = full_job(database, "kept")
    before = counts(database, EVERYTHING)
    gone = full_job(database, "gone")
    doubled = counts(database, EVERYTHING)
    assert all(doubled[name] == 2 * count and count > 0 for name, count in before.items()), doubled
    deletion.delete_job(database, gone.job_id, owner=OWNER)
    left = counts(database, EVERYTHING)
    assert left.pop("recordings") == 2
    assert left.pop("uploads") == 3  # each recording's, and the one that nothing came of
    assert left == {name: count for name, count in before.items() if name in left}
    with pytest.raises(JobUnknown):
        deletion.delete_job(database, gone.job_id, owner=OWNER)
    assert jobs.state_of(database, kept.job_id) is JobState.CANCELED


def test_a_deleted_recording_takes_its_jobs_along_and_leaves_its_blob(database: Database) -> None:
    kept = full_job(database, "kept")
    before = counts(database, EVERYTHING)
    gone = full_job(database, "gone")
    with database.transaction() as session:
        session.execute(delete(AuditRow))
    deletion.delete_recording(
        database,
        recording_of(database, gone),
        owner=OWNER,
        then=lambda session: session.execute(
            insert(AuditRow).values(owner=OWNER, action="x", subject="y", detail={})
        ),
    )
    assert counts(database, EVERYTHING) == before
    assert counts(database, (BlobRow.__table__, AuditRow.__table__)) == {"blobs": 2, "audit": 1}
    assert recordings.get(database, recording_of(database, kept), owner=OWNER)


def refused(database: Database, call: Callable[[], None]) -> str:
    before = counts(database, EVERYTHING)
    with pytest.raises(DeletionRefused) as caught:
        call()
    assert counts(database, EVERYTHING) == before
    return caught.value.code


def test_what_is_held_or_runs_is_not_deleted_neither_by_itself_nor_with_its_recording(
    database: Database,
) -> None:
    key = start(database)
    job_id, recording_id = key.job_id, recording_of(database, key)

    def of_job() -> str:
        return refused(database, lambda: deletion.delete_job(database, job_id, owner=None))

    def of_recording() -> str:
        return refused(
            database, lambda: deletion.delete_recording(database, recording_id, owner=None)
        )

    assert (of_job(), of_recording()) == ("job_not_ended", "job_not_ended")
    jobs.give_up(database, key, end_reason=EndReason.WORKER_LOST)
    # Its process may still be inside the engine; the row is what keeps the slot.
    assert (of_job(), of_recording()) == ("job_not_ended", "job_not_ended")
    epochs.release(database, key)
    for hold, row_id in (
        (keeping.hold_job, job_id),
        (keeping.hold_recording, recording_id),
    ):
        hold(database, row_id, is_held=True, then=lambda session: None)
        assert (of_job(), of_recording()) == ("held", "held")
        hold(database, row_id, is_held=False, then=lambda session: None)
    rows(database, "UPDATE jobs SET state = 'queued', queued_at = now() RETURNING 1")
    assert (of_job(), of_recording()) == ("job_not_ended", "job_not_ended")
    rows(database, "UPDATE jobs SET state = 'failed' RETURNING 1")
    rows(database, "UPDATE jobs SET owner = 'bob' RETURNING 1")
    assert of_recording() == "recording_in_use"
    rows(database, "UPDATE jobs SET owner = 'local' RETURNING 1")
    deletion.delete_recording(database, recording_id, owner=OWNER)
    assert counts(database, (JobRow.__table__, RecordingRow.__table__)) == {
        "jobs": 0,
        "recordings": 0,
    }


@pytest.mark.parametrize("row_id", [NOBODY, "", "../x", "a" * 36])
def test_what_is_not_there_or_anothers_is_unknown(database: Database, row_id: str) -> None:
    key = start(database)
    for job_id, owner in ((row_id, None), (key.job_id, "bob")):
        with pytest.raises(JobUnknown):
            deletion.delete_job(database, job_id, owner=owner)
    for recording_id, owner in ((row_id, None), (recording_of(database, key), "bob")):
        with pytest.raises(RecordingUnknown):
            deletion.delete_recording(database, recording_id, owner=owner)


def test_a_note_and_a_deletion_at_once_end_well_whoever_is_first(database: Database) -> None:
    def note(key: EpochKey) -> object:
        return notes.add(
            database, key.job_id, (1, 0, 0), action=NoteAction.DONE, text="", author="a", actor=None
        )

    def remove(key: EpochKey) -> object:
        return deletion.delete_job(database, key.job_id, owner=None)

    for order, expected in (((note, remove), "number"), ((remove, note), None)):
        key = full_job(database, order[0].__name__)
        first, second = held_at(
            database,
            "SELECT 1 FROM findings FOR UPDATE",
            *(lambda call=call, key=key: call(key) for call in order),
        )
        told = {type(first).__name__, type(second).__name__}
        assert told == {"NoneType", "FindingNote" if expected else FindingUnknown.__name__}
        assert counts(database, (JobRow.__table__,)) == {"jobs": 0}


def test_a_job_that_is_submitted_meanwhile_keeps_its_recording(database: Database) -> None:
    """Counted under the recording's lock: whoever submits holds it until the job is there."""
    key = start(database)
    end(database, key)
    recording_id = recording_of(database, key)
    is_inserted, may_commit = threading.Event(), threading.Event()

    def submit() -> None:
        with database.transaction() as session:
            session.execute(
                select(RecordingRow.id)
                .where(RecordingRow.id == recording_id)
                .with_for_update(read=True, key_share=True)
            )
            session.execute(
                insert(JobRow).values(
                    owner=OWNER,
                    recording_id=recording_id,
                    filename="again.mp4",
                    objective="?",
                    engine="rehearsal",
                    options=json.loads("{}"),
                    portfolio_sha256=digest("portfolio"),
                    state="queued",
                    queued_at=func.now(),
                )
            )
            is_inserted.set()
            may_commit.wait(20)

    submitting = threading.Thread(target=submit)
    submitting.start()
    assert is_inserted.wait(20)
    threading.Timer(0.3, may_commit.set).start()
    with pytest.raises(DeletionRefused) as caught:
        deletion.delete_recording(database, recording_id, owner=OWNER)
    submitting.join(20)
    assert caught.value.code == "job_not_ended"
