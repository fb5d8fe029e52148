"""Notes on findings through the API: kept as a log, shown in the brief, seen by their owners."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.ledger import audit, briefs
from pipeline.ledger.database import Database
from pipeline.ledger.errors import DatabaseUnavailable
from tests.api.conftest import Person
from tests.api.reviewed import KEY, ended, running
from worker.reaper import Publisher

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def job_id(database: Database) -> str:
    return ended(database, "ada", "A chart falls.", "Orders of 1.9 billion.")


def path(job_id: str, key: str = KEY) -> str:
    return f"/v1/jobs/{job_id}/findings/{key}/notes"


def stored(database: Database, job_id: str) -> tuple[int, dict[str, Any]]:
    brief = briefs.latest(database, job_id)
    assert brief is not None
    return brief.revision, json.loads(brief.document)


def test_what_is_noted_is_listed_counted_published_and_written_down(
    ada: Person, database: Database, job_id: str
) -> None:
    text = "Agrees with page 12.\n<b>\u05d0"
    noted = ada.post(path(job_id), json={"action": "note", "text": f" {text}\r\n"})
    assert noted.status_code == 201
    assert noted.headers["Location"] == path(job_id)
    assert (noted.get_json()["number"], noted.get_json()["text"]) == (1, text)
    assert noted.get_json()["author"] == "ada"
    accepted = ada.post(path(job_id), json={"action": "accept"}).get_json()
    told = ada.get(path(job_id)).get_json()
    assert told == {
        "key": KEY,
        "state": "accepted",
        "notes": [noted.get_json(), accepted],
    }
    first, second = ada.get(f"/v1/jobs/{job_id}/findings").get_json()["findings"]
    assert (first["key"], first["state"], first["note_count"]) == (KEY, "accepted", 2)
    assert (second["key"], second["state"], second["note_count"]) == ("1.1.0", "open", 0)
    revision, document = stored(database, job_id)
    assert revision == 3
    entry = next(found for found in document["findings"] if found["key"] == KEY)
    assert (entry["state"], entry["notes"][0]["text"]) == ("accepted", text)
    assert entry["observed"] == "A chart falls."
    newest = audit.listed(database, limit=1)[0]
    assert (newest.actor, newest.action, newest.subject) == (ada.key_id, "finding_noted", job_id)
    assert newest.detail == {"finding": KEY, "number": 2, "action": "accept"}


def test_the_same_request_again_writes_nothing(ada: Person, job_id: str) -> None:
    headers = {"Idempotency-Key": "one"}
    first = ada.post(path(job_id), json={"action": "done"}, headers=headers)
    again = ada.post(path(job_id), json={"action": "done"}, headers=headers)
    assert (again.status_code, again.data) == (201, first.data)
    assert again.headers["Idempotency-Replayed"] == "true"
    other = ada.post(path(job_id), json={"action": "reject"}, headers=headers)
    assert (other.status_code, other.get_json()["code"]) == (422, "idempotency_conflict")
    assert len(ada.get(path(job_id)).get_json()["notes"]) == 1


def test_only_the_owner_and_admins_may(
    ada: Person, bob: Person, admin: Person, job_id: str
) -> None:
    for answer in (bob.get(path(job_id)), bob.post(path(job_id), json={"action": "accept"})):
        assert (answer.status_code, answer.get_json()["code"]) == (404, "job_unknown")
    assert admin.post(path(job_id), json={"action": "reject"}).status_code == 201
    (note,) = ada.get(path(job_id)).get_json()["notes"]
    assert (note["author"], note["action"]) == ("root", "reject")


@pytest.mark.parametrize("key", ["1.0.1", "2.0.0", "1.0", "x", "01.0.0", f"1.0.{2**31}", "1.0.0 "])
def test_a_finding_that_is_not_there_takes_no_note(ada: Person, job_id: str, key: str) -> None:
    for answer in (
        ada.get(path(job_id, key)),
        ada.post(path(job_id, key), json={"action": "done"}),
    ):
        assert (answer.status_code, answer.get_json()["code"]) == (404, "finding_unknown")


@pytest.mark.parametrize(
    ("body", "where", "code"),
    [
        ({}, "/action", "action_invalid"),
        ({"action": "open"}, "/action", "action_invalid"),
        ({"action": 1}, "/action", "action_invalid"),
        ({"action": "note"}, "/text", "text_missing"),
        ({"action": "note", "text": " \n"}, "/text", "text_missing"),
        ({"action": "accept", "text": 5}, "/text", "text_type"),
        ({"action": "accept", "text": "x" * 2001}, "/text", "text_too_long"),
        ({"action": "accept", "text": "a\x00b"}, "/text", "text_control_character"),
        ({"action": "accept", "text": "a\u202eb"}, "/text", "text_control_character"),
        ({"action": "accept", "txt": ""}, "/txt", "field_unknown"),
    ],
)
def test_a_note_is_checked(
    ada: Person, job_id: str, body: dict[str, Any], where: str, code: str
) -> None:
    answer = ada.post(path(job_id), json=body)
    assert answer.status_code == 422
    told = [(found["pointer"], found["code"]) for found in answer.get_json()["errors"]]
    assert told == [(where, code)]
    assert ada.get(path(job_id)).get_json()["notes"] == []


@pytest.mark.parametrize("error", [DatabaseUnavailable(), ValueError("no such mark")])
def test_a_brief_that_cannot_be_made_takes_no_note_away_and_is_made_later(
    ada: Person,
    database: Database,
    job_id: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("api.notes.publish", fail)
        assert ada.post(path(job_id), json={"action": "reject"}).status_code == 201
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    caplog.clear()
    assert stored(database, job_id)[0] == 1
    Publisher(database, after_s=0).publish_missing()
    revision, document = stored(database, job_id)
    assert (revision, {found["state"] for found in document["findings"]}) == (
        2,
        {"open", "rejected"},
    )
    Publisher(database, after_s=0).publish_missing()
    assert stored(database, job_id)[0] == 2


def test_a_running_job_takes_notes_and_is_published_when_it_ends(
    ada: Person, database: Database
) -> None:
    job_id = running(database, "ada")
    assert ada.post(path(job_id), json={"action": "accept"}).status_code == 201
    assert briefs.latest(database, job_id) is None
    brief = ada.get(f"/v1/jobs/{job_id}/brief").get_json()
    assert brief["findings"][0]["state"] == "accepted"
