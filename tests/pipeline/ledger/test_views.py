"""Views: what people see of jobs, whose they are, and that a version tells every change."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pipeline.ledger import briefs, dossiers, epochs, jobs, reruns, views
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import CursorRefused, JobUnknown
from pipeline.ledger.reruns import RerunStart
from pipeline.records import EndReason, JobState, MediaEnd, Options, Phase
from tests.pipeline.ledger.factories import (
    cited,
    digest,
    make_evidence,
    make_finding,
    make_frame,
    make_origin,
    make_reply,
    make_request,
    make_unit,
    record_unit,
    rows,
)
from tests.pipeline.ledger.queued import claimed, fail, submit, upload

NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"
MEDIA_END = MediaEnd(
    source_end_ms=3_599_980,
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


def running(database: Database, **options: int) -> EpochKey:
    submit(database, request=make_request(options=Options(**options)))
    return claimed(database).key


def seen(database: Database, job_id: str) -> views.JobView:
    return views.get(database, job_id, owner="ana")


def test_a_queued_job_is_shown_as_it_was_asked(database: Database) -> None:
    recording = upload(database)
    view = seen(database, submit(database, recording=recording))
    request = make_request()
    assert (view.owner, view.recording_id, view.filename) == ("ana", recording.id, "call.mp4")
    assert (view.title, view.objective) == (request.title, request.objective)
    assert (view.event_date, view.engine) == (request.event_date, "rehearsal")
    assert (view.state, set(view.times)) == (JobState.QUEUED, {JobState.QUEUED})
    assert view.source_end_ms == 3_600_000
    assert {view.epoch, view.phase, view.progress_ms, view.alive_at, view.brief_revision} == {None}
    assert {view.end_reason, view.end_detail, view.cancel_requested_at} == {None}


def test_a_running_job_shows_how_far_it_is(database: Database) -> None:
    key = running(database, start_s=10)
    view = seen(database, key.job_id)
    assert (view.state, view.epoch, view.phase) == (JobState.RUNNING, 1, Phase.CLAIM)
    assert (view.epoch_start_s, view.progress_ms) == (10, 10_000)
    record_unit(database, key, 0, unit=make_unit(10))
    record_unit(database, key, 1, unit=make_unit(11, end_ms=11_250))
    view = seen(database, key.job_id)
    assert (view.progress_ms, view.phase) == (11_250, Phase.UNIT)
    assert view.times.keys() == {JobState.QUEUED, JobState.RUNNING}
    assert view.epoch_started_at == view.times[JobState.RUNNING]


def test_an_ended_job_shows_why(database: Database) -> None:
    key = running(database)
    jobs.finish(
        database,
        key,
        outcome=JobState.FAILED,
        end_reason=EndReason.ENGINE_ERROR,
        end_detail="it broke",
        media_end=MEDIA_END,
    )
    view = seen(database, key.job_id)
    assert (view.state, view.end_reason, view.end_detail) == (
        JobState.FAILED,
        "engine_error",
        "it broke",
    )
    assert view.source_end_ms == 3_599_980
    assert view.phase is Phase.CLAIM
    epochs.release(database, key)
    assert seen(database, key.job_id).phase is None


def test_a_rerun_shows_its_own_epoch_and_the_measured_end(database: Database) -> None:
    key = running(database)
    jobs.finish(
        database,
        key,
        outcome=JobState.FAILED,
        end_reason=EndReason.ENGINE_ERROR,
        media_end=MEDIA_END,
    )
    epochs.release(database, key)
    reruns.request(database, key.job_id, start=500, reason="again", by="adam")
    view = seen(database, key.job_id)
    assert (view.state, view.epoch, view.end_reason) == (JobState.QUEUED, 1, None)
    assert view.times.keys() == {JobState.QUEUED}
    claimed(database)
    view = seen(database, key.job_id)
    assert (view.epoch, view.epoch_start_s, view.progress_ms) == (2, 500, 500_000)
    assert view.source_end_ms == 3_599_980


def test_anothers_job_looks_like_none(database: Database) -> None:
    job_id = submit(database)
    for wanted, owner in ((job_id, "bob"), (NOBODY, "bob"), ("x", "bob"), ("x", None)):
        with pytest.raises(JobUnknown) as refusal:
            views.get(database, wanted, owner=owner)
        assert refusal.value.message == "There is no such job."
    assert views.get(database, job_id, owner=None) == seen(database, job_id)


def store_brief(database: Database, job_id: str) -> None:
    briefs.store(
        database,
        job_id,
        status="partial",
        document=b"{}",
        canonical_sha256=digest("brief"),
        release="0.1",
    )


def test_every_change_has_a_version_of_its_own(database: Database) -> None:
    job_id = submit(database)
    versions = [seen(database, job_id).version]
    key = claimed(database).key
    steps: list[Any] = [
        lambda: None,
        lambda: epochs.enter(database, key, Phase.PREPARE),
        lambda: record_unit(database, key, 0),
        lambda: record_unit(database, key, 1),
        lambda: epochs.stamp_alive(database, key),
        lambda: store_brief(database, job_id),
        lambda: jobs.request_cancel(database, job_id),
        lambda: jobs.finish(
            database, key, outcome=JobState.CANCELED, end_reason=EndReason.CANCELED
        ),
        lambda: epochs.release(database, key),
        lambda: reruns.request(
            database, job_id, start=RerunStart.LAST_COMPLETED, reason="again", by="adam"
        ),
    ]
    for step in steps:
        step()
        versions.append(seen(database, job_id).version)
    assert len(set(versions)) == len(versions)
    assert seen(database, job_id).version == versions[-1]


def test_jobs_come_newest_first_page_by_page(database: Database) -> None:
    made = [submit(database) for _ in range(7)]
    # Three of one moment, so that a page may end between them.
    rows(
        database,
        "UPDATE jobs SET created_at = '2026-01-01T00:00:00.123456Z'"
        " WHERE id::text = ANY(:ids) RETURNING 1",
        ids=made[:3],
    )
    order = [*reversed(made[3:]), *sorted(made[:3], reverse=True)]
    shown: list[str] = []
    cursor: str | None = None
    sizes = []
    while True:
        found, cursor = views.page(database, owner="ana", after=cursor, limit=2)
        shown += [view.id for view in found]
        sizes.append(len(found))
        if cursor is None:
            break
    assert (shown, sizes) == (order, [2, 2, 2, 1])


def test_a_full_last_page_has_no_next(database: Database) -> None:
    submit(database)
    assert views.page(database, owner="ana", limit=1)[1] is None


def test_a_page_keeps_to_its_owner_and_state(database: Database) -> None:
    ours, theirs = submit(database), submit(database, "bob")
    jobs.request_cancel(database, ours)

    def shown(**given: Any) -> set[str]:
        found, cursor = views.page(database, limit=10, **given)
        assert cursor is None
        return {view.id for view in found}

    assert shown(owner="ana") == {ours}
    assert shown(owner=None) == {ours, theirs}
    assert shown(owner=None, state=JobState.CANCELED) == {ours}
    assert shown(owner="bob", state=JobState.CANCELED) == set()
    assert shown(owner="nobody") == set()


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "x",
        "é",
        "====",
        *(
            base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
            for place in (
                [],
                {"a": 1},
                1,
                [1, 2],
                ["2026-01-01T00:00:00", NOBODY],
                ["2026-01-01T00:00:00+00:00", "x"],
                ["2026-01-01T00:00:00+00:00", NOBODY, 3],
            )
        ),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b"\xff").decode(),
    ],
)
def test_nonsense_is_no_cursor(database: Database, nonsense: str) -> None:
    with pytest.raises(CursorRefused):
        views.page(database, owner="ana", after=nonsense, limit=1)


def test_units_come_with_their_text_page_by_page(database: Database) -> None:
    key = running(database)
    for sequence in range(5):
        reply = make_reply(sequence, text=f"text {sequence}", tokens=sequence)
        record_unit(database, key, sequence, reply=reply)
    page = views.units(database, key.job_id, epoch=1, after_sequence=1, limit=2)
    assert [unit.text for unit in page] == ["text 2", "text 3"]
    assert [unit.tokens for unit in page] == [2, 3]
    assert tuple(unit.unit for unit in views.units(database, key.job_id, epoch=1, limit=9)) == (
        dossiers.load(database, key.job_id).units
    )
    assert views.units(database, key.job_id, epoch=2, limit=9) == ()


def test_texts_of_all_epochs_come_in_order_page_by_page(database: Database) -> None:
    key = running(database)
    write_texts(database, key, epoch=1)
    fail(database, key)
    reruns.request(database, key.job_id, start=0, reason="again", by="adam")
    write_texts(database, claimed(database).key, epoch=2)
    dossier = dossiers.load(database, key.job_id)
    findings = views.findings(database, key.job_id)
    assert findings == dossier.findings
    assert [(text.epoch, text.turn) for text in findings] == [(1, 0), (2, 0)]
    assert views.findings(database, key.job_id, after=(1, 0, 0)) == findings[1:]
    assert views.findings(database, key.job_id, limit=1) == findings[:1]
    evidence = views.evidence(database, key.job_id)
    assert evidence == dossier.evidence
    assert [(text.epoch, text.turn) for text in evidence] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert views.evidence(database, key.job_id, after=(1, 1, 5), limit=2) == evidence[1:3]
    assert views.epochs(database, key.job_id) == dossier.epochs


def write_texts(database: Database, key: EpochKey, *, epoch: int) -> None:
    frame = make_frame(epoch)
    origin = make_origin(frames=(cited(frame),))
    texts = (
        make_finding(epoch=epoch, origin=origin),
        make_evidence(epoch=epoch, turn=2),
        make_evidence(epoch=epoch, turn=1),
    )
    record_unit(database, key, 0, texts=texts, frames=(frame,))


def test_a_frame_is_shown_only_under_its_own_job(database: Database) -> None:
    key = running(database)
    write_texts(database, key, epoch=1)
    fail(database, key)
    other = running(database)
    name = make_frame(1).sha256
    assert views.frame_names(database, key.job_id) == {name}
    assert views.has_frame(database, key.job_id, name)
    assert not views.has_frame(database, key.job_id, digest("other"))
    assert not views.has_frame(database, other.job_id, name)
    assert not views.has_frame(database, NOBODY, name)


@pytest.mark.parametrize("job_id", ["", "x", "../x"])
def test_what_is_no_id_is_no_job(database: Database, job_id: str) -> None:
    for look in (views.epochs, views.evidence, views.findings, views.frame_names):
        with pytest.raises(JobUnknown):
            look(database, job_id)
    with pytest.raises(JobUnknown):
        views.units(database, job_id, epoch=1, limit=1)
    with pytest.raises(JobUnknown):
        views.has_frame(database, job_id, digest("x"))
