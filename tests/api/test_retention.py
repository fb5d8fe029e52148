"""Keeping, holding and deleting over HTTP: whose right it is, and what is told afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from pipeline.ledger.database import Database
from tests.api.conftest import Person, codes, submission

LATER = "2031-01-31T18:00:00+01:00"


def canceled(person: Person, job_id: str) -> str:
    assert person.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    return job_id


def ask(person: Person, method: str, path: str, **given: Any) -> Any:
    return person._ask(method, path, given)


def audited(database: Database) -> list[tuple[str, str]]:
    with database.transaction() as session:
        told = session.execute(text("SELECT owner, action FROM audit ORDER BY id"))
        return [(owner, action) for owner, action in told]


@pytest.mark.parametrize("kind", ["jobs", "recordings"])
def test_keep_until_is_set_and_unset_by_the_owner_or_an_admin(
    ada: Person, bob: Person, admin: Person, job_id: str, recording_id: str, kind: str
) -> None:
    path = f"/v1/{kind}/{job_id if kind == 'jobs' else recording_id}"
    before = ada.get(path)
    assert (before.get_json()["keep_until"], before.get_json()["held_at"]) == (None, None)
    told = ask(ada, "PATCH", path, json={"keep_until": LATER})
    assert (told.status_code, told.get_json()["keep_until"]) == (200, "2031-01-31T17:00:00Z")
    again = ada.get(path, headers={"If-None-Match": before.headers.get("ETag", "")})
    assert (again.status_code, again.get_json()) == (200, told.get_json())
    assert ask(bob, "PATCH", path, json={"keep_until": None}).status_code == 404
    assert ada.get(path).get_json()["keep_until"] == "2031-01-31T17:00:00Z"
    told = ask(admin, "PATCH", path, json={"keep_until": None})
    assert (told.status_code, told.get_json()["keep_until"]) == (200, None)


REFUSED = [
    ({}, "field_missing"),
    ({"keep_until": "tomorrow"}, "time_malformed"),
    ({"keep_until": 5}, "time_malformed"),
    ({"keep_until": "2031-01-31T18:00:00"}, "time_without_offset"),
    ({"keep_until": "2031-02-31T18:00:00Z"}, "time_malformed"),
    ({"keep_until": "0001-01-01T00:00:00+23:59"}, "time_malformed"),
    ({"keep_until": "2001-01-31T18:00:00Z"}, "time_passed"),
    ({"keep_untill": None, "keep_until": None}, "field_unknown"),
]


def test_the_document_has_these_methods_beside_the_others(ada: Person) -> None:
    paths = ada.get("/openapi.json").get_json()["paths"]
    for path in ("/v1/jobs/{job_id}", "/v1/recordings/{recording_id}"):
        assert paths[path].keys() == {"get", "patch", "delete"}
        assert paths[f"{path}/hold"].keys() == {"post", "delete"}


def test_what_is_no_time_to_come_is_refused(ada: Person, job_id: str) -> None:
    for body, code in REFUSED:
        answer = ask(ada, "PATCH", f"/v1/jobs/{job_id}", json=body)
        assert answer.status_code == 422, body
        assert set(codes(answer).values()) == {code}
    assert ada.get(f"/v1/jobs/{job_id}").get_json()["keep_until"] is None


@pytest.mark.parametrize("kind", ["jobs", "recordings"])
def test_a_hold_is_an_admins_and_outweighs_a_deletion(
    ada: Person, admin: Person, database: Database, job_id: str, recording_id: str, kind: str
) -> None:
    canceled(ada, job_id)
    path = f"/v1/{kind}/{job_id if kind == 'jobs' else recording_id}"
    for method in ("POST", "DELETE"):
        assert ask(ada, method, f"{path}/hold").get_json()["code"] == "role_refused"
    held = admin.post(f"{path}/hold")
    assert held.status_code == 200
    assert held.get_json()["held_at"] == ada.get(path).get_json()["held_at"] is not None
    for gone in (f"/v1/jobs/{job_id}", f"/v1/recordings/{recording_id}"):
        for person in (ada, admin):
            refused = ask(person, "DELETE", gone)
            assert (refused.status_code, refused.get_json()["code"]) == (409, "held")
    assert ask(admin, "DELETE", f"{path}/hold").get_json()["held_at"] is None
    assert ask(ada, "DELETE", f"/v1/recordings/{recording_id}").status_code == 204
    word = kind.removesuffix("s")
    assert audited(database)[-3:] == [
        ("root", f"{word}_held"),
        ("root", f"{word}_released"),
        ("ada", "recording_deleted"),
    ]


def test_recordings_are_listed_to_their_owner_and_to_an_admin_held_ones_apart(
    ada: Person, bob: Person, admin: Person, recording_id: str
) -> None:
    def listed(person: Person, query: str = "") -> list[Any]:
        answer = person.get(f"/v1/recordings{query}")
        assert answer.status_code == 200
        assert answer.get_json()["next"] is None
        found: list[Any] = answer.get_json()["recordings"]
        return found

    shown = ada.get(f"/v1/recordings/{recording_id}").get_json()
    assert (shown["owner"], shown["held_at"]) == ("ada", None)
    assert listed(ada) == listed(admin, "?held=false") == [shown]
    assert listed(bob) == listed(admin, "?held=true") == []
    held = admin.post(f"/v1/recordings/{recording_id}/hold").get_json()
    assert listed(ada, "?held=true&limit=1") == listed(admin) == [held]
    assert listed(bob, "?held=true") == listed(ada, "?held=false") == []
    for query in ("held=perhaps", "limit=0", "after=x", "state=held"):
        assert ada.get(f"/v1/recordings?{query}").status_code == 422, query


def test_a_deleted_job_is_told_nowhere_not_even_to_whoever_asks_again(
    ada: Person, bob: Person, database: Database, recording_id: str
) -> None:
    key = {"Idempotency-Key": "once"}
    body = submission(recording_id, objective="What of the secret merger?")
    job = ada.post("/v1/jobs", json=body, headers=key).get_json()
    path = f"/v1/jobs/{job['id']}"
    refused = ask(ada, "DELETE", path)
    assert (refused.status_code, refused.get_json()["code"]) == (409, "job_not_ended")
    canceled(ada, job["id"])
    assert ask(bob, "DELETE", path).status_code == 404
    deleted = ask(ada, "DELETE", path)
    assert (deleted.status_code, deleted.get_data()) == (204, b"")
    links = [path, *(link for link in job["links"].values() if job["id"] in link)]
    links += [f"{path}/frames/{'0' * 64}.jpg", f"{path}/findings/1.0.0/notes", f"/jobs/{job['id']}"]
    for link in links:
        answer = ada.get(link)
        assert answer.status_code == 404, link
    for method, place in (
        ("DELETE", path),
        ("POST", f"{path}/cancel"),
        ("PATCH", path),
    ):
        given = {"json": {"keep_until": None}} if method == "PATCH" else {}
        assert ask(ada, method, place, **given).status_code == 404
    assert ada.get("/v1/jobs").get_json()["jobs"] == []
    with database.transaction() as session:
        kept = session.execute(text("SELECT body FROM idempotency_keys")).all()
    assert not any(b"secret merger" in bytes(body) for (body,) in kept if body)
    assert ada.get(f"/v1/recordings/{recording_id}").status_code == 200
    again = ada.post("/v1/jobs", json=body, headers=key)
    assert again.status_code == 202
    assert again.get_json()["id"] != job["id"]


def test_a_recording_goes_with_its_owners_jobs_or_not_at_all(
    ada: Person, admin: Person, recording_id: str
) -> None:
    ended = canceled(ada, ada.submit(recording_id).get_json()["id"])
    waiting = ada.submit(recording_id).get_json()["id"]
    path = f"/v1/recordings/{recording_id}"
    assert ask(ada, "DELETE", path).get_json()["code"] == "job_not_ended"
    canceled(ada, waiting)
    others = canceled(admin, admin.submit(recording_id).get_json()["id"])
    assert ask(ada, "DELETE", path).get_json()["code"] == "recording_in_use"
    assert ada.get(f"/v1/jobs/{ended}").status_code == 200
    assert ask(admin, "DELETE", f"/v1/jobs/{others}").status_code == 204
    assert ask(ada, "DELETE", path).status_code == 204
    gone = [path, f"{path}/media", f"/v1/jobs/{ended}", f"/v1/jobs/{waiting}"]
    assert [ada.get(link).status_code for link in gone] == [404] * 4
    assert ada.submit(recording_id).status_code in (404, 422)
