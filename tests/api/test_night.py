"""The morning's report by the API and on its page."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api.service import EXTENSION
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import jobs
from tests.api.conftest import Person, codes, work
from tests.api.site import SAMPLES, Site, client, running, signed_in, site
from tests.api.test_forms import form
from tests.api.test_queue import HOSTILE

__all__ = ["client", "running", "site"]


def test_the_last_night_is_told_with_reasons_in_words_and_links(
    app: Flask, ada: Person, bob: Person, admin: Person, recording_id: str, sample_bytes: bytes
) -> None:
    done = ada.submit(recording_id, title="Q3").get_json()["id"]
    assert work(app, RehearsalEngine())
    waiting = ada.submit(recording_id).get_json()["id"]
    other = str(bob.upload(sample_bytes, "secret.mp4").get_json()["id"])
    canceled = bob.submit(other, title="Project Falcon").get_json()["id"]
    bob.post(f"/v1/jobs/{canceled}/cancel")
    answer = ada.get("/v1/night")
    told = answer.get_json()
    assert [(job["job_id"], job["outcome"]) for job in told["jobs"]] == [
        (done, "done"),
        (waiting, "waiting"),
    ]
    assert told["counts"] == {
        **dict.fromkeys(("failed", "partial", "canceled", "running"), 0),
        **{"done": 1, "waiting": 1},
    }
    first = told["jobs"][0]
    assert (first["watched_s"], first["state"], first["is_late"]) == (72, "succeeded", False)
    assert first["reason"] == "The newest epoch ran to the end of its source."
    assert ada.get(first["brief"]).status_code == ada.get(first["job"]).status_code == 200
    assert told["jobs"][1]["reason"] is None
    for secret in ("Falcon", "secret.mp4", canceled, "bob"):
        assert secret not in answer.text
    assert {job["job_id"] for job in admin.get("/v1/night").get_json()["jobs"]} == {
        *(done, waiting, canceled)
    }
    # 24 hours without a window; from its opening with one.
    span = [
        datetime.fromisoformat(told[name].replace("Z", "+00:00")) for name in ("since", "until")
    ]
    assert span[1] - span[0] == timedelta(hours=24)
    service = app.extensions[EXTENSION]
    night = {"night": "19:30-06:30", "night_zone": "Asia/Tokyo"}
    changed = replace(service, settings=replace(service.settings, **night))
    app.extensions[EXTENSION] = changed
    since = ada.get("/v1/night").get_json()["since"]
    assert changed.settings.window is not None
    opened = changed.settings.window.newest(datetime.now(timezone.utc)).opens_at
    assert datetime.fromisoformat(since.replace("Z", "+00:00")) == opened


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"since": "yesterday"}, {"since": "time_malformed"}),
        ({"until": "2026-01-16T07:00:00"}, {"until": "time_without_offset"}),
        (
            {"since": "2026-01-16T07:00:00Z", "until": "2026-01-16T07:00:00Z"},
            {"since": "since_too_late"},
        ),
        ({"until": "0001-01-01T00:00:00Z"}, {"until": "time_malformed"}),
        ({"until": "9" * 41}, {"until": "string_too_long"}),
        ({"sinse": "2026-01-16T07:00:00Z"}, {"sinse": "field_unknown"}),
    ],
    ids=repr,
)
def test_a_night_that_is_none_is_refused(
    ada: Person, asked: dict[str, str], code: dict[str, str]
) -> None:
    answer = ada.get("/v1/night", query_string=asked)
    assert (answer.status_code, codes(answer)) == (422, code)


def test_the_page_tells_the_night_escaped(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client)
    recording_id = site.recording(SAMPLES / "sample.mp4")
    asked = form(csrf, recording_id=recording_id, title=HOSTILE)
    job_id = client.post("/jobs/new", data=asked).location.rpartition("/")[2]
    jobs.request_cancel(site.database, job_id)
    answer = client.get("/night")
    assert answer.status_code == 200
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; {{ 7 * 7 }}" in answer.text
    assert "<script>alert" not in answer.text
    assert "cancelled: 1" in answer.text
    assert "It was cancelled on request." in answer.text
    later = client.get("/night", query_string={"since": "2026-01-16T07:00:00 <b>"})
    assert later.status_code == 422
    assert "<b>" not in later.text
    signed_in(site, client, owner="nobody else")
    assert "No job ended" in client.get("/night").text
