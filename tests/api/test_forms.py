"""The pages as a browser without scripts has them."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.admission import Admission
from api.service import EXTENSION, Service
from pipeline.ledger import audit, dossiers, space, tallies, views
from pipeline.ledger.keys import Role
from pipeline.records import JobState
from tests.api.site import OBJECTIVE, SAMPLES, Site, client, running, signed_in, site

__all__ = ["client", "running", "site"]


def sample(name: str) -> io.BytesIO:
    return io.BytesIO((SAMPLES / name).read_bytes())


def form(csrf: str, **changed: Any) -> dict[str, Any]:
    """What a browser without scripts sends once the recording is there."""
    return {
        "csrf_token": csrf,
        "recording_id": "",
        "portfolio": (sample("portfolio.csv"), "portfolio.csv"),
        "portfolio_text": "",
        "objective": OBJECTIVE,
        "title": "Investor day",
        "event_date": "2026-03-31",
        "engine": "rehearsal",
        **changed,
    }


def upload(
    client: FlaskClient, csrf: str, content: io.BytesIO | None, filename: str
) -> TestResponse:
    data: dict[str, Any] = {"csrf_token": csrf}
    if content is not None:
        data["file"] = (content, filename)
    return client.post("/jobs/new/recording", data=data, content_type="multipart/form-data")


def test_a_recording_for_which_there_is_no_room_is_refused_and_counted(
    site: Site, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    csrf = signed_in(site, client)
    with monkeypatch.context() as patched:
        patched.setattr(space.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
        assert upload(client, csrf, sample("sample.mp4"), "sample.mp4").status_code == 507
    assert tallies.all(site.database) == {"uploads_refused_space": 1}


def submitted(site: Site, client: FlaskClient, csrf: str) -> str:
    recording_id = site.recording(SAMPLES / "sample.mp4")
    answer = client.post("/jobs/new", data=form(csrf, recording_id=recording_id))
    assert answer.status_code == 303, answer.text
    return str(answer.location.rpartition("/")[2])


def test_the_recording_and_then_the_rest_are_submitted_without_scripts(
    site: Site, client: FlaskClient
) -> None:
    csrf = signed_in(site, client)
    answer = upload(client, csrf, sample("sample.mp4"), "sample.mp4")
    assert answer.status_code == 303
    page = client.get(answer.location).text
    assert "<bdi>sample.mp4</bdi> is uploaded and kept" in page
    kept = re.search(r'name="recording_id" value="([0-9a-f-]{36})"', page)
    assert kept is not None
    answer = client.post("/jobs/new", data=form(csrf, recording_id=kept[1]))
    assert answer.status_code == 303
    page = client.get(answer.location).text
    assert "Queued" in page
    assert "guidance &amp; margins?" in page
    view = views.get(site.database, answer.location.rpartition("/")[2], owner=site.owner)
    assert (view.state, view.title) == (JobState.QUEUED, "Investor day")
    assert view.recording_id == kept[1]
    told = {entry.action: entry.subject for entry in audit.listed(site.database, limit=3)}
    assert told["recording_uploaded"] == kept[1]
    assert told["job_submitted"] == view.id


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "the file is empty"), (b"no video", "not a recording"), (None, "no file field")],
)
def test_a_recording_that_cannot_be_analysed_is_refused_beside_its_field(
    site: Site, client: FlaskClient, content: bytes | None, said: str
) -> None:
    csrf = signed_in(site, client)
    answer = upload(client, csrf, None if content is None else io.BytesIO(content), "call.mp4")
    assert answer.status_code == 422
    problems = problems_of(answer.text)
    assert said in problems.pop("recording")
    assert set(problems.values()) == {""}


def test_an_upload_without_scripts_is_written_once_and_as_it_comes(
    site: Site, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    csrf = signed_in(site, client)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the form was spooled to a file of its own before it was stored")

    monkeypatch.setattr("werkzeug.formparser.default_stream_factory", refuse)
    answer = upload(client, csrf, sample("sample.mp4"), "sample.mp4")
    assert answer.status_code == 303


def test_an_id_that_is_no_recording_of_the_readers_is_not_said_to_be_kept(
    site: Site, client: FlaskClient
) -> None:
    signed_in(site, client)
    foreign = site.recording(SAMPLES / "sample.mp4", "bo")
    for wanted in (foreign, "nonsense"):
        page = client.get("/jobs/new", query_string={"recording_id": wanted})
        assert page.status_code == 200
        assert "is uploaded" not in page.text
        assert wanted not in page.text


def test_a_refusal_says_everything_beside_its_field_and_keeps_what_was_typed(
    site: Site, client: FlaskClient
) -> None:
    csrf = signed_in(site, client)
    pasted = "id,name,currency,asset_type,weight_pct\nA,Alpha,EURO,Equity,heavy\n"
    wrong = form(
        csrf,
        objective=" ",
        event_date="31.3.",
        title="<b>Day</b>",
        portfolio_text=pasted,
        recording_id=site.recording(SAMPLES / "sample.mp4"),
    )
    del wrong["portfolio"]
    answer = client.post("/jobs/new", data=wrong)
    assert answer.status_code == 422
    problems = problems_of(answer.text)
    assert "it is empty" in problems["objective"]
    assert "YYYY-MM-DD" in problems["event_date"]
    assert problems["portfolio"].count("<li>") == 2
    assert problems["title"] == problems["recording"] == ""
    assert 'value="&lt;b&gt;Day&lt;/b&gt;"' in answer.text
    assert "A,Alpha,EURO,Equity,heavy" in answer.text
    kept = re.search(r'name="recording_id" value="([0-9a-f-]+)"', answer.text)
    assert kept is not None
    mended = form(csrf, recording_id=kept[1])
    assert client.post("/jobs/new", data=mended).status_code == 303


def problems_of(page: str) -> dict[str, str]:
    """What stands beside each field."""
    return dict(re.findall(r'data-problems="(\w+)">(.*?)</ul>', page, flags=re.DOTALL))


def test_a_form_without_its_token_changes_nothing(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(site, client, csrf)
    assert client.post(f"/jobs/{job_id}/cancel").status_code == 403
    assert client.post("/jobs/new", data=form("wrong")).status_code == 403
    answer = upload(client, "wrong", sample("sample.mp4"), "sample.mp4")
    assert answer.status_code == 403
    assert views.get(site.database, job_id, owner=site.owner).state is JobState.QUEUED


def test_a_job_is_canceled_once_and_then_says_that_it_has_ended(
    site: Site, client: FlaskClient
) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(site, client, csrf)
    data = {"csrf_token": csrf}
    assert client.post(f"/jobs/{job_id}/cancel", data=data).status_code == 303
    again = client.post(f"/jobs/{job_id}/cancel", data=data)
    assert again.status_code == 409
    assert "has ended" in again.text


def test_a_rerun_is_for_admins_and_says_what_is_wrong(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(site, client, csrf)
    client.post(f"/jobs/{job_id}/cancel", data={"csrf_token": csrf})
    assert "Run it again" not in client.get(f"/jobs/{job_id}").text
    wanted = {"from": "start", "reason": "Once more", "csrf_token": csrf}
    assert client.post(f"/jobs/{job_id}/rerun", data=wanted).status_code == 403
    admin = site.app.test_client()
    wanted["csrf_token"] = signed_in(site, admin, owner="root", role=Role.ADMIN)
    assert "Run it again" in admin.get(f"/jobs/{job_id}").text
    wrong = admin.post(
        f"/jobs/{job_id}/rerun", data=wanted | {"from": "second", "second": "-1", "reason": ""}
    )
    assert wrong.status_code == 422
    assert wrong.text.count("<li>") - admin.get(f"/jobs/{job_id}").text.count("<li>") == 2
    assert admin.post(f"/jobs/{job_id}/rerun", data=wanted).status_code == 303
    assert views.get(site.database, job_id, owner=None).state is JobState.QUEUED


def test_another_analysts_job_is_not_found_and_not_listed(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(site, client, csrf)
    other = site.app.test_client()
    signed_in(site, other, owner="bo")
    assert other.get(f"/jobs/{job_id}").status_code == 404
    assert job_id not in other.get("/jobs").text
    assert job_id in client.get("/jobs").text


def test_texts_of_people_are_escaped_and_shown_whole(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client, owner="<i>ana</i>")
    hostile = "<script>alert(1)</script>"
    form_page = upload(client, csrf, sample("sample.mp4"), "<img src=x>.mp4").location
    recording_id = form_page.partition("recording_id=")[2]
    answer = client.post(
        "/jobs/new",
        data=form(csrf, title=hostile, objective=hostile, recording_id=recording_id),
    )
    assert answer.status_code == 303, answer.text
    assert "<img src=x" not in client.get(form_page).text
    for address in ("/jobs", answer.location):
        page = client.get(address).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "<i>ana" not in page
        assert "&lt;script&gt;alert(1)" in page


def test_a_recording_for_which_there_is_no_place_is_refused_beside_the_file(
    site: Site, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    csrf = signed_in(site, client)
    service: Service = site.app.extensions[EXTENSION]
    full = replace(service, admission=Admission(places=1, waiting_max=0))
    monkeypatch.setitem(site.app.extensions, EXTENSION, full)
    with full.admission.place():
        answer = upload(client, csrf, sample("sample.mp4"), "sample.mp4")
        assert answer.status_code == 503
        assert "too many recordings are being taken in" in answer.text
        assert client.get("/jobs").status_code == 200


def test_other_streams_are_chosen_in_the_form_and_refused_beside_their_fields(
    site: Site, client: FlaskClient
) -> None:
    csrf = signed_in(site, client)
    recording_id = site.recording(SAMPLES / "sample.mp4")
    page = client.get(f"/jobs/new?recording_id={recording_id}").text
    assert '<option value="0">h264' in page
    given = {"recording_id": recording_id, "audio_stream": "9", "video_stream": "first"}
    answer = client.post("/jobs/new", data=form(csrf, **given))
    assert answer.status_code == 422
    told = problems_of(answer.text)
    assert "no audio stream 9" not in answer.text  # a number that is none goes before
    assert "whole number" in told["video_stream"]
    assert 'value="first"' in answer.text
    answer = client.post("/jobs/new", data=form(csrf, **(given | {"video_stream": " 0 "})))
    assert "no audio stream 9" in problems_of(answer.text)["audio_stream"]
    answer = client.post("/jobs/new", data=form(csrf, recording_id=recording_id, audio_stream="1"))
    assert answer.status_code == 303
    job_id = answer.location.rpartition("/")[2]
    options = dossiers.load(site.database, job_id).request.options
    assert (options.audio_stream, options.video_stream) == (1, None)
