"""A job that names a link: asked for, shown, canceled, and nothing of the link told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from api import make_app
from api.service import EXTENSION, Service
from pipeline.ledger import fetches
from pipeline.ledger.database import Database
from pipeline.records import EndReason
from pipeline.settings import Settings
from tests.api.conftest import HOLDINGS, Person, codes, person, submission
from tests.pipeline.ledger.factories import rows

URL = "https://media.test/private/Q3%20call.mp4?token=hush"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, fetch_urls=True)


def asked(**changes: Any) -> dict[str, Any]:
    body = submission("", **{"source_url": URL, **changes})
    return {name: value for name, value in body.items() if value != ""}


def test_a_link_is_taken_in_a_recordings_place(ada: Person, database: Database) -> None:
    answer = ada.post("/v1/jobs", json=asked())
    assert answer.status_code == 202
    job = answer.get_json()
    assert (job["state"], job["filename"]) == ("waiting_for_recording", "Q3 call.mp4")
    assert job["recording_id"] is None
    assert job["fetch"] == {
        "host": "media.test",
        "attempts": 0,
        "received_bytes": 0,
        "total_bytes": None,
        "ended_at": None,
    }
    claim = fetches.claim(database, lease_s=60)
    assert claim is not None
    assert (claim.owner, claim.link.text) == ("ada", URL)
    for told in (answer, ada.get(answer.headers["Location"]), ada.get("/v1/jobs")):
        assert "hush" not in told.text
        assert "private" not in told.text


def test_how_far_it_is_is_shown_and_changes_the_jobs_version(
    ada: Person, database: Database
) -> None:
    place = ada.post("/v1/jobs", json=asked()).headers["Location"]
    before = ada.get(place)
    claim = fetches.claim(database, lease_s=60)
    assert claim is not None
    fetches.advance(database, claim, received_bytes=5, total_bytes=9, version=None)
    after = ada.get(place, headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    fetch = after.get_json()["fetch"]
    assert (fetch["received_bytes"], fetch["total_bytes"], fetch["attempts"]) == (5, 9, 1)
    fetches.renew(database, claim, lease_s=60)  # what nobody sees changes nothing
    again = ada.get(place, headers={"If-None-Match": after.headers["ETag"]})
    assert again.status_code == 304


def test_a_job_that_waits_for_its_recording_is_canceled_at_once(
    ada: Person, database: Database
) -> None:
    job = ada.post("/v1/jobs", json=asked()).get_json()
    canceled = ada.post(f"{job['links']['self']}/cancel")
    assert canceled.status_code == 202
    assert canceled.get_json()["state"] == "canceled"
    assert rows(database, "SELECT url FROM fetches") == [(None,)]
    assert fetches.claim(database, lease_s=60) is None
    assert ada.get(job["links"]["brief"]).get_json()["is_ready"] is False


def test_without_a_recording_nothing_is_run_again(ada: Person, admin: Person) -> None:
    job = ada.post("/v1/jobs", json=asked()).get_json()
    ada.post(f"{job['links']['self']}/cancel")
    answer = admin.post(job["links"]["epochs"], json={"from": "start", "reason": "again"})
    assert answer.status_code == 409
    assert answer.get_json()["code"] == "recording_not_stored"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"source_url": "http://media.test/"}, {"/source_url": "link_scheme_refused"}),
        ({"source_url": "https://me:hush@m.test/"}, {"/source_url": "link_credentials_refused"}),
        ({"source_url": "https://media.test:80/"}, {"/source_url": "link_port_refused"}),
        ({"source_url": 5}, {"/source_url": "link_type"}),
        ({"source_url": ""}, {"/source_url": "link_type"}),
        ({"recording_id": "4b0c5e1c-6f3e-4a55-9d0e-6d1b6f5d4f10"}, {"/source_url": "source_twice"}),
        ({"source_url": None}, {"/recording_id": "recording_missing"}),
        (
            {"source_url": "ftp://media.test/", "objective": ""},
            {"/source_url": "link_scheme_refused", "/objective": "objective_missing"},
        ),
    ],
)  # fmt: skip
def test_a_link_that_is_refused_is_refused_before_anything_is_written(
    ada: Person, database: Database, changes: dict[str, Any], wrong: dict[str, str]
) -> None:
    body = asked() | changes
    answer = ada.post("/v1/jobs", json={k: v for k, v in body.items() if v is not None})
    assert answer.status_code == 422
    assert codes(answer) == wrong
    assert "hush" not in answer.text
    assert rows(database, "SELECT 1 FROM jobs") == rows(database, "SELECT 1 FROM fetches") == []


def test_the_same_key_asks_for_one_fetch_only(ada: Person, database: Database) -> None:
    first, again = (
        ada.post("/v1/jobs", json=asked(), headers={"Idempotency-Key": "k1"}) for _ in range(2)
    )
    assert first.get_json() == again.get_json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(rows(database, "SELECT 1 FROM fetches")) == 1
    other = ada.post("/v1/jobs", json=asked(title="x"), headers={"Idempotency-Key": "k1"})
    assert other.get_json()["code"] == "idempotency_conflict"
    (kept,) = rows(database, "SELECT to_jsonb(k)::text FROM idempotency_keys AS k")
    assert "hush" not in kept[0]


def test_another_owner_sees_nothing_of_it(ada: Person, bob: Person) -> None:
    place = ada.post("/v1/jobs", json=asked()).headers["Location"]
    assert bob.get(place).status_code == 404


def test_the_audit_names_no_part_of_the_link(ada: Person, database: Database) -> None:
    ada.post("/v1/jobs", json=asked())
    for (entry,) in rows(database, "SELECT to_jsonb(a)::text FROM audit AS a"):
        assert "media.test" not in entry
        assert "hush" not in entry


# --- where it is off ---------------------------------------------------------------------------


@pytest.fixture
def app_without(settings: Settings) -> Iterator[Flask]:
    made = make_app(replace(settings, fetch_urls=False))
    yield made
    service: Service = made.extensions[EXTENSION]
    service.watcher.close()
    service.database.dispose()


def test_links_are_off_unless_they_were_turned_on(app_without: Flask) -> None:
    assert not Settings().fetch_urls
    ada = person(app_without, "ada")
    answer = ada.post("/v1/jobs", json=asked())
    assert answer.status_code == 422
    assert codes(answer) == {"/source_url": "fetching_off"}


# --- the pages ---------------------------------------------------------------------------------


def page_of(app: Flask, who: Person) -> Any:
    """A signed-in browser of this person, and its CSRF token."""
    from pipeline.ledger import keys

    service: Service = app.extensions[EXTENSION]
    client = app.test_client()
    token = keys.make_sign_in(service.database, who.key_id, lifetime_s=60)
    assert client.get(f"/sign-in?token={token}").status_code == 200
    found = re.search(r'name="csrf-token" content="([^"]+)"', client.get("/jobs").text)
    assert found is not None
    return client, found[1]


def form(csrf: str, **changes: str) -> dict[str, str]:
    fields = {
        "csrf_token": csrf,
        "recording_id": "",
        "source_url": URL,
        "portfolio_text": json.dumps(HOLDINGS),
        "objective": "What of margins?",
        "title": "",
        "event_date": "",
        "engine": "rehearsal",
    }
    return fields | changes


def test_a_browser_without_scripts_gives_a_link(app: Flask, ada: Person) -> None:
    client, csrf = page_of(app, ada)
    assert 'name="source_url"' in client.get("/jobs/new").text
    answer = client.post("/jobs/new", data=form(csrf))
    assert answer.status_code == 303, answer.text
    page = client.get(answer.headers["Location"]).text
    assert "Waiting for the recording" in page
    assert "It is fetched from <bdi>media.test</bdi>" in page
    assert "Q3 call.mp4" in page
    assert "Cancel this job" in page
    for told in (page, client.get("/jobs").text):
        assert "hush" not in told
        assert "private" not in told


def test_the_page_shows_how_far_the_recording_is(
    app: Flask, ada: Person, database: Database
) -> None:
    client, csrf = page_of(app, ada)
    place = client.post("/jobs/new", data=form(csrf)).headers["Location"]
    claim = fetches.claim(database, lease_s=60)
    assert claim is not None
    fetches.advance(database, claim, received_bytes=1_500_000, total_bytes=20_000_000, version=None)
    assert "1.5 MB of 20.0 MB" in client.get(place).text
    fetches.fail(
        database, claim, end_reason=EndReason.LINK_REFUSED, end_detail="it leads to <b>a page</b>"
    )
    page = client.get(place).text
    assert "The link was not accepted." in page
    assert "it leads to &lt;b&gt;a page&lt;/b&gt;" in page


def test_a_refused_link_is_told_beside_its_field(app: Flask, ada: Person) -> None:
    client, csrf = page_of(app, ada)
    answer = client.post("/jobs/new", data=form(csrf, source_url="http://media.test/"))
    assert answer.status_code == 422
    told = re.search(r'id="source_url-problems"[^>]*>(.*?)</ul>', answer.text)
    assert told is not None
    assert "only https:// is accepted" in told[1]
    headers = {"X-CSRF-Token": csrf}
    checked = client.post("/jobs/check", data=form(csrf, source_url="x"), headers=headers)
    assert codes(checked) == {"/source_url": "link_malformed"}


def test_the_form_has_no_field_for_links_where_they_are_off(app_without: Flask) -> None:
    client, _ = page_of(app_without, person(app_without, "ada"))
    page = client.get("/jobs/new").text
    assert "source_url" not in page
    assert re.search(r'<input id="recording"[^>]* required', page)
