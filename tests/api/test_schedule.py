"""When a job is wanted: by the API, by the form, and whether it will be there in time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from api.service import EXTENSION
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import views, workers
from pipeline.ledger.database import Database
from pipeline.ledger.keys import Role
from pipeline.ledger.workers import WorkerState
from tests.api.conftest import Person, codes, submission, work
from tests.api.site import SAMPLES, Site, client, running, signed_in, site
from tests.api.test_forms import form, problems_of

__all__ = ["client", "running", "site"]


def ahead(**by: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(**by)).isoformat()


def ready(database: Database) -> None:
    worker_id = workers.register(database, host="h", slot="h/0", engine="rehearsal", pid=1)
    workers.set_state(database, worker_id, WorkerState.READY)


def test_a_schedule_is_kept_and_told(ada: Person, recording_id: str) -> None:
    when = {"priority": 7, "not_before": ahead(hours=1), "ready_by": ahead(hours=9)}
    answer = ada.submit(recording_id, **when)
    told = answer.get_json()
    assert answer.status_code == 202, told
    assert told["priority"] == 7
    for name in ("not_before", "ready_by"):
        assert datetime.fromisoformat(told[name].replace("Z", "+00:00")) == datetime.fromisoformat(
            str(when[name])
        )
    shown = ada.get(f"/v1/jobs/{told['id']}").get_json()
    assert {**shown, "forecast": told["forecast"]} == told
    plain = ada.submit(recording_id).get_json()
    assert [plain[name] for name in ("priority", "not_before", "ready_by", "forecast")] == [
        *(0, None, None, None)
    ]


def test_what_is_wrong_with_a_schedule_is_told_with_the_rest(
    ada: Person, admin: Person, recording_id: str
) -> None:
    wrong = {
        "objective": " ",
        "priority": -1,
        "not_before": "2026-01-01T00:00:00",
        "ready_by": "2020-01-01T00:00:00Z",
    }
    answer = ada.submit(recording_id, **wrong)
    assert answer.status_code == 422
    assert codes(answer) == {
        "/objective": "objective_missing",
        "/priority": "priority_reserved",
        "/not_before": "time_without_offset",
        "/ready_by": "time_too_far",
    }
    refused = ada.submit(recording_id, ready_by=ahead(seconds=-5))
    assert codes(refused) == {"/ready_by": "ready_by_past"}
    assert admin.submit(recording_id, priority=-100).status_code == 202


def test_the_answer_says_whether_it_can_be_ready_in_time_and_a_repetition_says_the_same(
    app: Flask, ada: Person, recording_id: str, database: Database
) -> None:
    def asked(key: str, **by: float) -> Any:
        body = submission(recording_id, ready_by=ahead(**by))
        first, again = (
            ada.post("/v1/jobs", json=body, headers={"Idempotency-Key": key}) for _ in range(2)
        )
        assert (first.status_code, first.data) == (202, again.data)
        assert again.headers["Idempotency-Replayed"] == "true"
        return first.get_json()["forecast"]

    # Nothing was ever run here: nothing is known, and it is not said to be in time or late.
    told = asked("a", hours=1)
    assert (told["makes_it"], told["expected_end_at"], told["unknown"]) == (
        *(None, None),
        "nothing_measured",
    )
    assert told["pace"] == {
        "engine": "rehearsal",
        "times_realtime": None,
        "start_up_s": None,
        "units": 0,
        "epochs": 0,
    }
    assert work(app, RehearsalEngine())
    assert asked("b", hours=1)["unknown"] == "no_worker"
    ready(database)
    told = asked("c", hours=1)
    assert (told["makes_it"], told["unknown"], told["position"]) == (True, None, 2)
    assert told["pace"]["units"] == 72
    assert told["pace"]["times_realtime"] > 1
    assert told["pace"]["start_up_s"] is not None
    assert told["ready_workers"] == 1
    assert told["made_at"] <= told["expected_start_at"] < told["expected_end_at"]
    # At realtime the sample takes 72 seconds.
    with database.transaction() as session:
        session.execute(text("UPDATE units SET total_ms = 1000"))
    assert asked("d", seconds=20)["makes_it"] is False


def test_a_job_that_waits_for_its_recording_has_no_forecast_yet(
    app: Flask, ada: Person, database: Database
) -> None:
    service = app.extensions[EXTENSION]
    app.extensions[EXTENSION] = replace(
        service, settings=replace(service.settings, fetch_urls=True)
    )
    body = submission("", source_url="https://example.com/a.mp4", ready_by=ahead(hours=9))
    body.pop("recording_id")
    told = ada.post("/v1/jobs", json=body).get_json()
    assert (told["state"], told["forecast"]["unknown"]) == (
        "waiting_for_recording",
        "recording_awaited",
    )
    assert (told["forecast"]["makes_it"], told["forecast"]["position"]) == (None, None)


# --- the form ----------------------------------------------------------------------------------


def test_the_form_reads_its_times_by_the_clocks_of_the_zone_that_it_names(
    site: Site, client: FlaskClient
) -> None:
    csrf = signed_in(site, client)
    day = (datetime.now(timezone.utc) + timedelta(days=2)).date()
    recording_id = site.recording(SAMPLES / "sample.mp4")
    when = {
        "ready_by": f"{day}T07:00",
        "not_before": f"{day}T01:30",
        "zone": "Asia/Kolkata",
        "priority": "3",
    }
    answer = client.post("/jobs/new", data=form(csrf, recording_id=recording_id, **when))
    assert answer.status_code == 303, answer.text
    view = views.get(site.database, answer.location.rpartition("/")[2], owner=site.owner)
    assert view.priority == 3
    assert view.ready_by == datetime.fromisoformat(f"{day}T01:30:00+00:00")
    assert view.not_before == datetime.fromisoformat(f"{day}T01:30:00+00:00") - timedelta(hours=5.5)
    page = client.get(answer.location).text
    assert "Wanted by" in page
    assert "Whether it will be ready in time is not known: pace not known yet." in page
    # A script has the same from the check, and sends it to the API as it is.
    told = client.post(
        "/jobs/check", data=form(csrf, **when), headers={"X-CSRF-Token": csrf}
    ).get_json()["schedule"]
    assert told["priority"] == 3
    assert datetime.fromisoformat(told["ready_by"]) == view.ready_by


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ({"ready_by": "2020-01-01T07:00", "zone": "UTC"}, {"ready_by": "further away"}),
        ({"ready_by": "soon", "zone": "UTC"}, {"ready_by": "no time"}),
        ({"not_before": "2026-01-01T07:00", "zone": "Berlin <b>"}, {"zone": "no name"}),
        ({"priority": "-1"}, {"priority": "only an admin"}),
        ({"priority": "first"}, {"priority": "no whole number"}),
    ],
    ids=repr,
)
def test_the_form_refuses_beside_the_field_and_keeps_what_was_typed(
    site: Site, client: FlaskClient, when: dict[str, str], told: dict[str, str]
) -> None:
    csrf = signed_in(site, client)
    recording_id = site.recording(SAMPLES / "sample.mp4")
    answer = client.post("/jobs/new", data=form(csrf, recording_id=recording_id, **when))
    assert answer.status_code == 422
    problems = problems_of(answer.text)
    for field, said in told.items():
        assert said in problems.pop(field)
    assert set(problems.values()) == {""}
    for typed in when.values():
        assert f'value="{typed.replace("<", "&lt;").replace(">", "&gt;")}"' in answer.text


def test_an_admins_form_takes_a_priority_below_zero(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client, role=Role.ADMIN)
    assert 'min="-100"' in client.get("/jobs/new").text
    recording_id = site.recording(SAMPLES / "sample.mp4")
    answer = client.post(
        "/jobs/new", data=form(csrf, recording_id=recording_id, priority="-3", zone="nowhere")
    )
    assert answer.status_code == 303, answer.text
