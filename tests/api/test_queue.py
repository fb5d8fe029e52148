"""The queue by the API and on its page: who sees what of it, and who may stop it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api.service import EXTENSION
from omnai.commands.jobs import UNKNOWN as COMMAND_WORDS
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import audit, queue
from pipeline.ledger.database import Database
from pipeline.ledger.forecast import Unknown
from pipeline.ledger.keys import Role
from pipeline.ledger.nights import Outcome
from pipeline.ledger.queue import QueueState
from tests.api.conftest import Person, work
from tests.api.site import SAMPLES, Site, client, running, signed_in, site
from tests.api.test_forms import form
from tests.api.test_schedule import ahead, ready

__all__ = ["client", "running", "site"]

HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }}"


def test_one_sees_ones_own_jobs_and_how_many_there_are(
    ada: Person, bob: Person, admin: Person, recording_id: str, sample_bytes: bytes
) -> None:
    theirs = str(bob.upload(sample_bytes, "secret.mp4").get_json()["id"])
    mine = [ada.submit(recording_id, title="mine").get_json()["id"]]
    other = bob.submit(theirs, title="Project Falcon").get_json()["id"]
    mine.append(ada.submit(recording_id).get_json()["id"])
    seen = ada.get("/v1/queue")
    told = seen.get_json()
    assert (told["queued"], told["awaited"], told["queue"]["running"]) == (3, 0, 0)
    assert [(job["job_id"], job["position"]) for job in told["jobs"]] == [
        (mine[0], 1),
        (mine[1], 3),
    ]
    for secret in ("Falcon", "secret.mp4", other, "bob"):
        assert secret not in seen.text
    assert [job["job_id"] for job in admin.get("/v1/queue").get_json()["jobs"]] == [
        *(mine[0], other, mine[1])
    ]


def test_what_is_not_known_is_null_and_what_is_known_has_its_figures(
    app: Flask, ada: Person, recording_id: str, database: Database
) -> None:
    ada.submit(recording_id)
    assert work(app, RehearsalEngine())
    late = ada.submit(recording_id, ready_by=ahead(hours=3)).get_json()["id"]
    told = ada.get("/v1/queue").get_json()
    [job] = told["jobs"]
    assert (job["expected_start_at"], job["expected_end_at"], job["unknown"], job["is_late"]) == (
        *(None, None, "no_worker", None),
    )
    assert (told["ready_workers"], told["night"]) == ({}, None)
    ready(database)
    told = ada.get("/v1/queue").get_json()
    [job] = told["jobs"]
    assert (job["job_id"], job["position"], job["unknown"], job["is_late"]) == (
        late,
        1,
        None,
        False,
    )
    assert told["made_at"] <= job["expected_start_at"] < job["expected_end_at"]
    [pace] = told["paces"]
    assert (pace["engine"], pace["units"], pace["epochs"]) == ("rehearsal", 72, 1)
    assert told["ready_workers"] == {"rehearsal": 1}


def test_the_window_is_told(app: Flask, ada: Person) -> None:
    service = app.extensions[EXTENSION]
    night = {"night": "19:30-06:30", "night_zone": "Europe/Berlin", "night_hard_end": True}
    app.extensions[EXTENSION] = replace(service, settings=replace(service.settings, **night))
    told = ada.get("/v1/queue").get_json()["night"]
    assert (told["window"], told["zone"], told["weekends"], told["hard_end"]) == (
        *("19:30-06:30", "Europe/Berlin"),
        *(True, True),
    )
    assert told["opens_at"] < told["closes_at"]


@pytest.mark.parametrize(
    ("action", "state", "written"),
    [
        ("pause", QueueState.PAUSED, "queue_paused"),
        ("drain", QueueState.DRAINING, "queue_draining"),
        ("resume", QueueState.OPEN, "queue_resumed"),
    ],
)
def test_only_an_admin_stops_and_opens_the_queue_and_it_is_written_down(
    ada: Person, admin: Person, database: Database, action: str, state: QueueState, written: str
) -> None:
    before = QueueState.PAUSED if state is QueueState.OPEN else QueueState.OPEN
    with database.transaction() as session:
        queue.set_state(session, before)
    refused = ada.post(f"/v1/queue/{action}")
    assert (refused.status_code, refused.get_json()["code"]) == (403, "role_refused")
    assert queue.state(database) is before
    told = admin.post(f"/v1/queue/{action}").get_json()
    assert (told["state"], told["running"]) == (state.value, 0)
    assert admin.get("/v1/queue").get_json()["queue"] == told
    assert queue.state(database) is state
    entries = [
        (entry.actor, entry.action, entry.subject) for entry in audit.listed(database, limit=9)
    ]
    assert entries.count((admin.key_id, written, "queue")) == 1
    assert [entry for entry in entries if entry[0] == ada.key_id] == []


# --- the page ----------------------------------------------------------------------------------


@pytest.fixture
def _open_queue(site: Site) -> Any:
    yield
    with site.database.transaction() as session:
        queue.set_state(session, QueueState.OPEN)


@pytest.mark.usefixtures("_open_queue")
def test_the_page_shows_ones_own_jobs_escaped_and_has_no_buttons_for_an_analyst(
    site: Site, client: FlaskClient
) -> None:
    csrf = signed_in(site, client)
    recording_id = site.recording(SAMPLES / "sample.mp4")
    asked = form(csrf, recording_id=recording_id, title=HOSTILE, ready_by="", zone="UTC")
    assert client.post("/jobs/new", data=asked).status_code == 303
    answer = client.get("/queue")
    assert answer.status_code == 200
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; {{ 7 * 7 }}" in answer.text
    assert "<script>alert" not in answer.text
    assert "1 waits for a worker" in answer.text
    assert 'aria-current="page">Queue' in answer.text
    for state in QueueState:
        assert f'name="state" value="{state.value}"' not in answer.text
    refused = client.post("/queue", data={"csrf_token": csrf, "state": "paused"})
    assert refused.status_code == 403
    assert queue.state(site.database) is QueueState.OPEN
    signed_in(site, client, owner="somebody else")
    assert "script&gt;" not in client.get("/queue").text


@pytest.mark.usefixtures("_open_queue")
def test_an_admins_buttons_need_the_sessions_token(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client, role=Role.ADMIN)
    page = client.get("/queue").text
    assert re.findall(r'name="state" value="(\w+)"', page) == ["paused", "draining"]
    for token in ({}, {"csrf_token": "another"}):
        assert client.post("/queue", data={"state": "paused", **token}).status_code == 403
    assert queue.state(site.database) is QueueState.OPEN
    for state, others in (("paused", ["open", "draining"]), ("draining", ["open", "paused"])):
        answer = client.post("/queue", data={"csrf_token": csrf, "state": state})
        assert (answer.status_code, answer.location) == (303, "/queue")
        assert queue.state(site.database).value == state
        page = client.get("/queue").text
        assert re.findall(r'name="state" value="(\w+)"', page) == others
        assert "nothing more is begun" in page
    assert client.post("/queue", data={"csrf_token": csrf, "state": "gone"}).status_code == 303
    assert queue.state(site.database).value == "draining"
    assert client.post("/queue", data={"csrf_token": csrf, "state": "open"}).status_code == 303
    assert queue.state(site.database) is QueueState.OPEN


def test_a_reader_without_a_session_comes_back_to_the_page(site: Site, client: FlaskClient) -> None:
    asked = client.get("/queue")
    assert (asked.status_code, asked.location) == (303, "/sign-in?next=/queue")
    assert 'value="/queue"' in client.get(asked.location).text


def test_every_reason_has_its_words_on_the_page_and_on_the_command_line(site: Site) -> None:
    words = site.app.jinja_env.get_template("words.html").module
    reasons = {reason.value for reason in Unknown}
    assert set(words.UNKNOWN) == set(COMMAND_WORDS) == reasons
    assert set(words.QUEUE_STATES) == {state.value for state in QueueState}
    assert set(words.OUTCOMES) == {outcome.value for outcome in Outcome}
