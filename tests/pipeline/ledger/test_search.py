"""Search across jobs: by holding, words, time and state, page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from pipeline.ledger import notes, reruns, search
from pipeline.ledger.claims import Claimed
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import CursorRefused
from pipeline.ledger.search import Filters, Hit
from pipeline.ledger.words import parse
from pipeline.records import Interval, JobState, NoteAction, NoteState
from tests.pipeline.ledger.factories import (
    HOLDINGS,
    make_finding,
    make_holding,
    make_origin,
    make_probe,
    make_reply,
    make_request,
    make_unit,
    record_unit,
    rows,
)
from tests.pipeline.ledger.queued import claimed, fail, submit, upload

ACME, SHORT = "A chart falls.", "Orders of €1.9bn; 営業利益率 improves, 100% sure."


@dataclass(frozen=True)
class Found:
    """Two jobs of ana and one of bob, a finding or two in each."""

    first: Claimed
    second: Claimed
    bobs: Claimed


def watched(database: Database, owner: str, *said: dict[str, Any], **given: Any) -> Claimed:
    submit(database, owner, **given)
    job = claimed(database)
    for at, words in enumerate(said):
        finding = make_finding(
            turn=at, origin=make_origin(first_sequence=at, last_sequence=at), **words
        )
        record_unit(database, job.key, at, texts=[finding])
    fail(database, job.key)
    return job


@pytest.fixture
def found(database: Database) -> Found:
    return Found(
        first=watched(
            database,
            "ana",
            {"evidence": ACME, "holding_ids": ("h1",)},
            {"evidence": SHORT, "holding_ids": ("h2", "h1")},
        ),
        second=watched(
            database,
            "ana",
            {"evidence": ACME, "holding_ids": ("cash",)},
            recording=upload(database, "ana", sha256="b" * 64),
            request=make_request(title="Day two"),
        ),
        bobs=watched(
            database,
            "bob",
            {"evidence": ACME},
            portfolio_holdings=(*HOLDINGS, make_holding(id="x", name="100% pure_thing")),
        ),
    )


def hits(database: Database, owner: str | None = "ana", **given: Any) -> tuple[Hit, ...]:
    if "text" in given:
        given["query"] = parse(given.pop("text"))
    page, following = search.findings(database, Filters(**given), owner=owner, limit=50)
    assert following is None
    return page


def places(page: tuple[Hit, ...]) -> list[tuple[str, int]]:
    return [(hit.job_id, hit.turn) for hit in page]


def test_a_hit_says_what_was_found_and_where(database: Database, found: Found) -> None:
    hit = hits(database, text="営業")[0]
    assert (hit.job_id, hit.owner, hit.title, hit.filename) == (
        found.first.key.job_id,
        "ana",
        "Q3 call",
        "call.mp4",
    )
    assert [holding.id for holding in hit.holdings] == ["h2", "h1"]
    assert (hit.evidence, hit.implication) == (SHORT, "Margins narrow.")
    assert (hit.job_state, hit.state, hit.note_count) == (JobState.FAILED, NoteState.OPEN, 0)
    assert hit.origin == make_origin(first_sequence=1, last_sequence=1)
    assert hit.origin_ms == make_probe().origin_ms


def test_everybody_finds_their_own_and_an_admin_all(database: Database, found: Found) -> None:
    first, second, bobs = found.first.key.job_id, found.second.key.job_id, found.bobs.key.job_id
    assert places(hits(database)) == [(second, 0), (first, 0), (first, 1)]
    assert places(hits(database, owner=None)) == [(bobs, 0), (second, 0), (first, 0), (first, 1)]
    assert hits(database, owner="eve") == ()


@pytest.mark.parametrize(
    ("given", "turns"),
    [
        ({"holding": "ACME"}, [0, 1]),
        ({"holding": "xnys:shrt"}, [1]),
        ({"holding": "h2"}, [1]),
        ({"holding": "Cash"}, [0]),
        ({"holding": "roadrunner"}, []),
        ({"text": "chart"}, [0, 0]),
        ({"text": "利益"}, [1]),
        ({"text": "€1.9bn -chart"}, [1]),
        ({"text": "100%"}, [1]),
        ({"text": "%"}, [0, 0, 1]),
        ({"text": "globex"}, [0, 0, 1]),  # a name that is no holding
        ({"text": "friends", "holding": "h2"}, [1]),  # a name of its other holding
        ({"job_state": JobState.FAILED}, [0, 0, 1]),
        ({"job_state": JobState.RUNNING}, []),
        ({"state": NoteState.ACCEPTED}, []),
    ],
)
def test_each_filter_keeps_what_fits(
    database: Database, found: Found, given: dict[str, Any], turns: list[int]
) -> None:
    assert [hit.turn for hit in hits(database, **given)] == turns


def test_time_and_recording_narrow_the_jobs(database: Database, found: Found) -> None:
    first, second = found.first.key.job_id, found.second.key.job_id
    at = next(hit.submitted_at for hit in hits(database) if hit.job_id == second)
    assert {hit.job_id for hit in hits(database, submitted_from=at)} == {second}
    before = at - timedelta(microseconds=1)
    assert {hit.job_id for hit in hits(database, submitted_to=before)} == {first}
    assert hits(database, submitted_from=at + timedelta(days=1)) == ()
    kept = rows(database, "SELECT recording_id::text FROM jobs WHERE id = :id", id=first)[0][0]
    assert {hit.job_id for hit in hits(database, recording_id=kept)} == {first}


def test_the_state_is_that_of_the_newest_deciding_note(database: Database, found: Found) -> None:
    for action in (NoteAction.REJECT, NoteAction.ACCEPT, NoteAction.NOTE):
        notes.add(
            database,
            found.first.key.job_id,
            (1, 1, 0),
            action=action,
            text="Why.",
            author="ana",
            actor=None,
        )
    (hit,) = hits(database, state=NoteState.ACCEPTED)
    assert (hit.turn, hit.state, hit.note_count) == (1, NoteState.ACCEPTED, 3)
    assert [hit.turn for hit in hits(database, state=NoteState.OPEN)] == [0, 0]
    assert hits(database, state=NoteState.REJECTED) == ()


@pytest.mark.parametrize("limit", [1, 2])
def test_pages_have_no_holes_and_no_repetitions(
    database: Database, found: Found, limit: int
) -> None:
    read: list[Hit] = []
    after = None
    while True:
        page, after = search.findings(database, Filters(), owner=None, after=after, limit=limit)
        assert len(page) <= limit
        read += page
        if after is None:
            break
    assert tuple(read) == hits(database, owner=None)


@pytest.mark.parametrize("cursor", ["x", "é", "W10", "WzEsMl0", "", "bnVsbA"])
def test_a_cursor_of_another_kind_is_refused(database: Database, cursor: str) -> None:
    with pytest.raises(CursorRefused):
        search.findings(database, Filters(), owner=None, after=cursor, limit=1)


def test_what_a_later_epoch_took_the_place_of_is_left_out(database: Database, found: Found) -> None:
    job_id = found.first.key.job_id
    reruns.request(database, job_id, start=1, reason="again", by="root")
    again = claimed(database).key
    assert again == EpochKey(job_id=job_id, number=2)
    assert places(hits(database))[1:] == [(job_id, 0), (job_id, 1)]
    record_unit(database, again, 0, unit=make_unit(1))
    # Second 1 belongs to the second epoch now, second 0 still to the first.
    assert places(hits(database))[1:] == [(job_id, 0)]


def test_what_a_drain_completed_belongs_to_the_last_second(
    database: Database, found: Found
) -> None:
    submit(database, "eve")
    key = claimed(database).key
    record_unit(database, key, 0)
    end = make_origin(generated_in=Interval(start_ms=900, end_ms=900), first_sequence=1)
    said = make_finding(origin=replace(end, last_sequence=1))
    drain = make_reply(1, drain=1)
    record_unit(database, key, 1, unit=None, reply=drain, source_end_ms=900, texts=[said])
    fail(database, key)
    assert places(hits(database, owner="eve")) == [(key.job_id, 0)]
    reruns.request(database, key.job_id, start=0, reason="again", by="root")
    record_unit(database, claimed(database).key, 0)
    assert hits(database, owner="eve") == ()
