"""Asking for a job, listing, watching and canceling."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask
from redis import Redis
from sqlalchemy import text

from api import submissions
from api.job_answers import progress
from api.service import EXTENSION, Service
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import audit, dossiers, idempotency, jobs, views
from pipeline.ledger.database import Database
from pipeline.records import JobState
from pipeline.settings import Settings
from tests.api.conftest import HOLDINGS, Person, codes, person, submission, work
from worker.app import queue_name

CSV = "id,name,ticker,exchange,currency,asset_type,weight_pct\nH1,Alpha Corp,,,USD,equity,100.00\n"


def rows(database: Database, table: str) -> int:
    with database.transaction() as session:
        return int(session.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


def test_a_submission_is_written_whole_and_rung_for(
    ada: Person, recording_id: str, database: Database, settings: Settings
) -> None:
    Redis.from_url(str(settings.redis_url)).flushdb()
    options = {"seed": 7, "start_s": 3}
    answer = ada.submit(recording_id, title="Q3", event_date="2026-03-31", options=options)
    told = answer.get_json()
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/v1/jobs/{told['id']}" == told["links"]["self"]
    assert (told["state"], told["epoch"], list(told["times"])) == ("queued", None, ["queued"])
    stored = dossiers.load(database, told["id"])
    assert stored.request.objective == "What of margins?"
    assert str(stored.request.event_date) == "2026-03-31"
    assert (stored.request.options.seed, stored.request.options.start_s) == (7, 3)
    assert stored.request.engine == "rehearsal"
    holdings = HOLDINGS if isinstance(HOLDINGS, list) else HOLDINGS["holdings"]
    assert [holding.id for holding in stored.holdings] == [holding["id"] for holding in holdings]
    queue = Redis.from_url(str(settings.redis_url))
    assert queue.llen(queue_name("rehearsal")) == 1
    assert told["holding_count"] == len(holdings)
    assert told["id"].encode() not in queue.lrange(queue_name("rehearsal"), 0, -1)[0]


def test_a_portfolio_may_be_csv_text(ada: Person, recording_id: str, database: Database) -> None:
    answer = ada.submit(recording_id, portfolio=CSV)
    (holding,) = dossiers.load(database, answer.get_json()["id"]).holdings
    assert (holding.name, str(holding.weight_pct)) == ("Alpha Corp", "100.00")


def test_no_digit_of_a_weight_is_lost_on_the_way(
    ada: Person, recording_id: str, database: Database
) -> None:
    weights = ("12.34567890123456789", "87.65432109876543211")  # no double holds either
    cash = '{{"id": "{0}", "name": "{0}", "currency": "USD", "asset_type": "x", "weight_pct": {1}}}'
    holdings = ", ".join(map(cash.format, "ab", weights))
    body = f'{{"recording_id": "{recording_id}", "objective": "x", "portfolio": [{holdings}]}}'
    answer = ada.post("/v1/jobs", data=body, content_type="application/json")
    assert answer.status_code == 202, answer.get_json()
    stored = dossiers.load(database, answer.get_json()["id"]).holdings
    assert [str(holding.weight_pct) for holding in stored] == list(weights)


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_written(
    ada: Person, database: Database
) -> None:
    answer = ada.post(
        "/v1/jobs",
        json={
            "recording_id": "00000000-0000-4000-8000-000000000000",
            "portfolio": [{"id": "a", "nmae": "A"}],
            "objective": " ",
            "event_date": "31.3.2026",
            "engine": "other",
            "options": {"sed": 1, "start_s": -1},
        },
        headers={"Idempotency-Key": "k"},
    )
    assert answer.status_code == 422
    found = codes(answer)
    assert found["/recording_id"] == "recording_unknown"
    assert found["/portfolio/0/nmae"] == "field_unknown"
    assert found["/objective"] == "objective_missing"
    assert found["/event_date"] == "event_date_invalid"
    assert found["/engine"] == "engine_unknown"
    assert found["/options/sed"] == "option_unknown"
    assert found["/options/start_s"] == "option_out_of_bounds"
    assert [rows(database, table) for table in ("jobs", "holdings", "idempotency_keys")] == [0] * 3


def test_unknown_and_repeated_fields_are_refused_by_name(ada: Person, recording_id: str) -> None:
    answer = ada.submit(recording_id, objectiv="x")
    assert codes(answer) == {"/objectiv": "field_unknown"}
    assert "objective" in answer.get_json()["errors"][0]["detail"]
    twice = ada.post(
        "/v1/jobs", data='{"title": "a", "title": "b"}', content_type="application/json"
    )
    assert codes(twice) == {"/title": "field_repeated"}


def test_blanks_around_what_is_said_do_not_count(ada: Person, recording_id: str) -> None:
    answer = ada.submit(
        recording_id, title=f" {'t' * 200} ", objective=f"{'o' * 4000}\n", event_date=" 2026-03-31 "
    )
    told = answer.get_json()
    assert (answer.status_code, told["event_date"]) == (202, "2026-03-31")
    assert (len(told["title"]), len(told["objective"])) == (200, 4000)
    refused = ada.submit(recording_id, title="t" * 201, objective="o" * 4001, event_date="x")
    assert codes(refused) == {
        "/objective": "objective_too_long",
        "/title": "title_too_long",
        "/event_date": "event_date_invalid",
    }


def test_csv_problems_are_told_with_their_row(ada: Person, recording_id: str) -> None:
    answer = ada.submit(recording_id, portfolio=CSV.replace("100.00", "much"))
    (found,) = answer.get_json()["errors"]
    assert found["pointer"] == "/portfolio"
    assert "row 2" in found["detail"]


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "json_malformed"),
        (b"[]", "application/json", 400, "json_malformed"),
        (b'{"a": NaN}', "application/json", 400, "json_malformed"),
        (b'{"a": "\xff"}', "application/json", 400, "json_malformed"),
        (b'{"a": ' + b"[" * 200_000, "application/json", 400, "json_malformed"),
        (b"{} {}", "application/json", 400, "json_malformed"),
        (b"a=b", "application/x-www-form-urlencoded", 415, "media_type_refused"),
        (b" " * 4_000_000, "application/json", 413, "request_too_large"),
        (b'{"objective": "\\ud800", "portfolio": "\\ud800"}', "application/json", 422, None),
    ],
)
def test_what_is_no_json_object_is_refused(
    ada: Person, body: bytes, kind: str, status: int, code: str | None
) -> None:
    answer = ada.post("/v1/jobs", data=body, content_type=kind)
    assert answer.status_code == status
    assert answer.content_type == "application/problem+json"
    assert code in (None, answer.get_json()["code"])


def test_anothers_recording_is_refused_as_one_that_is_not_there(
    bob: Person, recording_id: str
) -> None:
    theirs = bob.submit(recording_id)
    none = bob.submit("00000000-0000-4000-8000-000000000000")
    assert (theirs.status_code, theirs.data) == (422, none.data)


def test_a_dead_queue_still_takes_the_job(settings: Settings, sample_bytes: bytes) -> None:
    from api import make_app

    app = make_app(replace(settings, redis_url="redis://127.0.0.1:1/0"))
    ada = person(app, "ada")
    began = time.monotonic()
    answer = ada.submit(ada.upload(sample_bytes).get_json()["id"])
    assert answer.status_code == 202
    assert time.monotonic() - began < 30
    assert ada.get(answer.headers["Location"]).get_json()["state"] == "queued"
    app.extensions[EXTENSION].database.dispose()


def test_a_repeated_submission_with_a_key_makes_one_job(
    ada: Person, bob: Person, recording_id: str, database: Database
) -> None:
    key = {"Idempotency-Key": "once"}
    body = submission(recording_id)
    first = ada.post("/v1/jobs", json=body, headers=key)
    again = ada.post("/v1/jobs", json=body, headers=key)
    assert (again.status_code, again.data) == (202, first.data)
    assert again.headers["Location"] == first.headers["Location"]
    other = ada.post("/v1/jobs", json=body | {"title": "x"}, headers=key)
    assert (other.status_code, other.get_json()["code"]) == (422, "idempotency_conflict")
    assert rows(database, "jobs") == 1
    # Another owner's key of the same name is another key.
    assert bob.post("/v1/jobs", json=body, headers=key).get_json()["code"] == "input_refused"


def crash_after_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that is killed before it rings: nothing of the request runs after the commit."""

    def die(*_: object) -> None:
        raise SystemExit("killed")

    monkeypatch.setattr("api.submissions.ring", die)
    monkeypatch.setattr("api.idempotency.idempotency.abandon", lambda *_: False)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "failing"])
def test_a_retry_after_a_crash_between_commit_and_answer_gets_the_first_job(
    ada: Person,
    recording_id: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    is_killed: bool,
) -> None:
    body, key = submission(recording_id), {"Idempotency-Key": "once"}
    with monkeypatch.context() as patched:
        crash_after_commit(patched)
        if not is_killed:
            patched.setattr("api.idempotency.idempotency.abandon", idempotency.abandon)
        with pytest.raises(SystemExit):
            ada.post("/v1/jobs", json=body, headers=key)
    again = ada.post("/v1/jobs", json=body, headers=key)
    (job,) = ada.get("/v1/jobs").get_json()["jobs"]
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.get_json() == {**job, "forecast": None}
    assert again.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert [(entry.action, entry.subject) for entry in audit.listed(database, limit=1)] == [
        ("job_submitted", job["id"])
    ]


def test_a_request_that_was_taken_over_makes_no_second_job(
    ada: Person, recording_id: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, key = submission(recording_id), {"Idempotency-Key": "slow"}
    check = submissions.check_members

    def slow(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(submissions, "check_members", check)
        with database.transaction() as session:
            session.execute(text("UPDATE idempotency_keys SET begun_at = now() - interval '1 h'"))
        assert ada.post("/v1/jobs", json=body, headers=key).status_code == 202
        return check(*given, **named)

    monkeypatch.setattr(submissions, "check_members", slow)
    late = ada.post("/v1/jobs", json=body, headers=key)
    assert (late.status_code, late.get_json()["code"]) == (409, "idempotency_in_flight")
    assert rows(database, "jobs") == 1


def test_of_two_at_once_with_one_key_only_one_makes_a_job(
    app: Flask, ada: Person, recording_id: str, database: Database
) -> None:
    answers: list[Any] = []

    def post() -> None:
        client = Person(app.test_client(use_cookies=False), ada.secret, ada.key_id)
        key = {"Idempotency-Key": "race"}
        answers.append(client.post("/v1/jobs", json=submission(recording_id), headers=key))

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {202, 409}
    assert len({answer.data for answer in answers if answer.status_code == 202}) == 1
    assert rows(database, "jobs") == 1


def test_jobs_are_listed_newest_first_page_by_page(
    ada: Person, bob: Person, admin: Person, recording_id: str
) -> None:
    ids = [ada.submit(recording_id, title=f"n{n}").get_json()["id"] for n in range(3)]
    first = ada.get("/v1/jobs?limit=2").get_json()
    assert [job["id"] for job in first["jobs"]] == [ids[2], ids[1]]
    rest = ada.get("/v1/jobs", query_string={"limit": 2, "after": first["next"]}).get_json()
    assert ([job["id"] for job in rest["jobs"]], rest["next"]) == ([ids[0]], None)
    assert len(admin.get("/v1/jobs").get_json()["jobs"]) == 3
    assert bob.get("/v1/jobs").get_json()["jobs"] == []
    ada.post(f"/v1/jobs/{ids[1]}/cancel")
    (canceled,) = ada.get("/v1/jobs?state=canceled").get_json()["jobs"]
    assert canceled["id"] == ids[1]


def test_the_lists_parameters_are_checked(ada: Person) -> None:
    for query in ("limit=0", "limit=x", "state=done", "page=2", "limit=1&limit=2"):
        answer = ada.get(f"/v1/jobs?{query}")
        assert answer.status_code == 422
        assert list(codes(answer)) == [query.partition("=")[0]]
    assert ada.get("/v1/jobs?after=nonsense").get_json()["code"] == "cursor_refused"


def test_anothers_job_is_answered_as_one_that_is_not_there(
    ada: Person, bob: Person, job_id: str
) -> None:
    missing = "00000000-0000-4000-8000-000000000000"
    for tail in ("", "/brief", "/evidence", "/findings", "/units", "/epochs", "/frames/0.jpg"):
        theirs, none = (bob.get(f"/v1/jobs/{each}{tail}") for each in (job_id, missing))
        assert theirs.status_code == none.status_code == 404
        assert (theirs.data, dict(theirs.headers)) == (none.data, dict(none.headers))
        assert bob.get(f"/v1/jobs/nonsense{tail}").data == none.data
        asked = {"If-None-Match": "*", "Prefer": "wait=30"}
        theirs, none = (
            bob.head(f"/v1/jobs/{each}{tail}", headers=asked) for each in (job_id, missing)
        )
        assert (theirs.status_code, dict(theirs.headers)) == (404, dict(none.headers))
    theirs, none = (bob.post(f"/v1/jobs/{each}/cancel") for each in (job_id, missing))
    assert (theirs.status_code, theirs.data) == (404, none.data)
    assert dict(theirs.headers) == dict(none.headers)
    # Other spellings of its id are no ids of ours, not even for its owner.
    for spelling in (f"urn:uuid:{job_id}", f"{{{job_id}}}", job_id.replace("-", "")):
        assert ada.get(f"/v1/jobs/{spelling}").data == none.data
    assert ada.get(f"/v1/jobs/{job_id}").get_json()["state"] == "queued"


def test_an_unchanged_job_is_answered_with_304(ada: Person, job_id: str) -> None:
    path = f"/v1/jobs/{job_id}"
    tag = ada.get(path).headers["ETag"]
    assert ada.get(path, headers={"If-None-Match": tag}).status_code == 304
    ada.post(f"{path}/cancel")
    changed = ada.get(path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.get_json()["state"]) == (200, "canceled")


def test_waiting_ends_once_the_job_changes(ada: Person, job_id: str, database: Database) -> None:
    path = f"/v1/jobs/{job_id}"
    tag = ada.get(path).headers["ETag"]
    timer = threading.Timer(1.0, jobs.request_cancel, (database, job_id))
    timer.start()
    began = time.monotonic()
    answer = ada.get(path, headers={"If-None-Match": tag, "Prefer": "wait=30"})
    took = time.monotonic() - began
    timer.join()
    assert answer.status_code == 200
    assert answer.get_json()["state"] == "canceled"
    assert answer.headers["Preference-Applied"] == "wait=30"
    assert 0.5 < took < 8  # below RECHECK_S: it was woken


def test_waiting_ends_with_304_when_nothing_happens(ada: Person, job_id: str) -> None:
    path = f"/v1/jobs/{job_id}"
    tag = ada.get(path).headers["ETag"]
    began = time.monotonic()
    answer = ada.get(path, headers={"If-None-Match": tag, "Prefer": "wait=1"})
    assert answer.status_code == 304
    assert 0.9 < time.monotonic() - began < 6


def test_nobody_waits_for_what_is_known_to_be_new_or_over(ada: Person, job_id: str) -> None:
    path = f"/v1/jobs/{job_id}"
    stale = {"If-None-Match": '"old"', "Prefer": "wait=30"}
    began = time.monotonic()
    assert ada.get(path, headers=stale).status_code == 200
    ada.post(f"{path}/cancel")
    assert ada.get(path, headers={"Prefer": "wait=30"}).status_code == 200
    assert time.monotonic() - began < 10


def test_past_the_last_seat_one_is_answered_at_once(app: Flask, ada: Person, job_id: str) -> None:
    service: Service = app.extensions[EXTENSION]
    with service.watcher.seat("a"), service.watcher.seat("b"):
        began = time.monotonic()
        answer = ada.get(f"/v1/jobs/{job_id}", headers={"Prefer": "wait=30"})
        assert time.monotonic() - began < 5
    assert answer.status_code == 200
    assert "Preference-Applied" not in answer.headers


def test_a_job_that_ran_tells_its_times_and_its_progress(
    app: Flask, ada: Person, job_id: str
) -> None:
    assert work(app, RehearsalEngine())
    told = ada.get(f"/v1/jobs/{job_id}").get_json()
    assert (told["state"], told["end_reason"], told["epoch"]) == ("succeeded", "completed", 1)
    assert list(told["times"]) == ["queued", "running", "finalizing", "succeeded"]
    assert (told["progress"]["done_s"], told["progress"]["total_s"]) == (72.0, 72.0)
    assert told["progress"]["phase"] is None
    assert told["progress"]["progress_at"] >= told["times"]["running"]
    assert told["progress"]["eta_s"] is None


def test_the_speed_is_that_of_the_units_and_not_of_signs_of_life(
    database: Database, job_id: str
) -> None:
    began = datetime(2026, 3, 31, tzinfo=timezone.utc)
    view = replace(
        views.get(database, job_id, owner="ada"),
        state=JobState.RUNNING,
        epoch=1,
        epoch_start_s=10,
        epoch_started_at=began,
        progress_at=began + timedelta(seconds=10),
        alive_at=began + timedelta(seconds=100),
        progress_ms=30_000,
        source_end_ms=40_000,
    )
    told = progress(view)
    assert (told.times_realtime, told.eta_s) == (2.0, 5.0)
    assert told.progress_at == view.progress_at


def test_a_cancel_says_what_it_did(
    app: Flask, ada: Person, recording_id: str, database: Database
) -> None:
    job_id = ada.submit(recording_id).get_json()["id"]
    path = f"/v1/jobs/{job_id}/cancel"
    answer = ada.post(path)
    assert answer.status_code == 202
    assert answer.get_json() == {"id": job_id, "state": "canceled", "cancel_requested": True}
    again = ada.post(path)
    assert (again.status_code, again.get_json()["code"]) == (409, "job_ended")
    assert "canceled" in again.get_json()["detail"]
    assert not work(app, RehearsalEngine())
    told = [(entry.actor, entry.action) for entry in audit.listed(database, limit=1)]
    assert told == [(ada.key_id, "job_canceled")]


def test_a_running_job_goes_to_canceling(
    app: Flask, ada: Person, job_id: str, database: Database
) -> None:
    assert jobs.move(database, job_id, source=JobState.QUEUED, target=JobState.RUNNING)
    answer = ada.post(f"/v1/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.get_json()["state"]) == (202, "canceling")
