"""What a job found: brief, findings, evidence, units, epochs and frames."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from flask import Flask
from werkzeug.http import parse_options_header

from api import downloads, make_app
from api.service import EXTENSION, Service
from pipeline.brief import pages
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import audit, briefs
from pipeline.ledger.database import Database
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.api.conftest import SAMPLES, Person, person, work
from tests.api.reviewed import ended
from tests.clips import run_ffmpeg
from tests.doubles import ScriptedEngine
from tests.pipeline.ledger.queued import submit

OFFICE = "application/vnd.openxmlformats-officedocument"


@dataclass(frozen=True)
class Done:
    """A job that ran to its end."""

    app: Flask
    ada: Person
    bob: Person
    admin: Person
    recording_id: str
    job_id: str

    @property
    def path(self) -> str:
        return f"/v1/jobs/{self.job_id}"

    @property
    def database(self) -> Database:
        service: Service = self.app.extensions[EXTENSION]
        return service.database


@pytest.fixture(scope="module")
def done(
    module_database_url: str,
    valkey_url: str,
    sample_bytes: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Done]:
    folder: Path = tmp_path_factory.mktemp("results")
    app = make_app(
        Settings(data_dir=folder, database_url=module_database_url, redis_url=valkey_url)
    )
    ada = person(app, "ada")
    recording_id = ada.upload(sample_bytes).get_json()["id"]
    job_id = ada.submit(recording_id).get_json()["id"]
    assert work(app, RehearsalEngine())
    yield Done(app, ada, person(app, "bob"), person(app, "root", Role.ADMIN), recording_id, job_id)
    app.extensions[EXTENSION].watcher.close()
    app.extensions[EXTENSION].database.dispose()


def test_the_json_brief_is_the_stored_document(done: Done) -> None:
    answer = done.ada.get(f"{done.path}/brief")
    stored = briefs.latest(done.database, done.job_id)
    assert stored is not None
    assert answer.content_type == "application/json"
    assert answer.data == stored.document


@pytest.mark.parametrize(
    ("accept", "query", "kind"),
    [
        ("text/html", "", "text/html; charset=utf-8"),
        ("text/markdown", "", "text/markdown; charset=utf-8"),
        ("text/html", "?format=md", "text/markdown; charset=utf-8"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "", "text/html; charset=utf-8"),
        ("*/*", "", "application/json"),
    ],
)
def test_a_brief_comes_in_the_form_asked_for(
    done: Done, accept: str, query: str, kind: str
) -> None:
    answer = done.ada.get(f"{done.path}/brief{query}", headers={"Accept": accept})
    assert (answer.status_code, answer.content_type) == (200, kind)
    assert json.loads(done.ada.get(f"{done.path}/brief").data)["sha256"] in answer.text
    tag = answer.headers["ETag"]
    again = done.ada.get(
        f"{done.path}/brief{query}", headers={"Accept": accept, "If-None-Match": tag}
    )
    assert again.status_code == 304


def test_a_form_that_there_is_not_is_refused(done: Done) -> None:
    answer = done.ada.get(f"{done.path}/brief", headers={"Accept": "image/png"})
    assert (answer.status_code, answer.get_json()["code"]) == (406, "format_refused")
    assert done.ada.get(f"{done.path}/brief?format=odt").status_code == 422


@pytest.mark.parametrize(
    ("form", "kind", "begins"),
    [
        ("json", "application/json", b'{"'),
        ("md", "text/markdown; charset=utf-8", b"# "),
        ("html", "text/html; charset=utf-8", b"<!"),
        ("pdf", "application/pdf", b"%PDF-"),
        ("docx", f"{OFFICE}.wordprocessingml.document", b"PK"),
        ("csv", "text/csv; charset=utf-8", b""),
        ("xlsx", f"{OFFICE}.spreadsheetml.sheet", b"PK"),
        ("vtt", "text/vtt; charset=utf-8", b"WEBVTT"),
        ("srt", "application/x-subrip", b""),
        ("zip", "application/zip", b"PK"),
    ],
)
def test_each_form_comes_whole_with_its_own_digest_and_a_name(
    done: Done, form: str, kind: str, begins: bytes
) -> None:
    answer = done.ada.get(f"{done.path}/brief?format={form}")
    assert (answer.status_code, answer.content_type) == (200, kind)
    assert answer.data.startswith(begins)
    assert answer.content_length == len(answer.data)
    digest = hashlib.sha256(answer.data).digest()
    assert answer.headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest).decode()}:"
    way = "inline" if form in ("json", "md", "html") else "attachment"
    named = f'{way}; filename="call.{form}"'
    assert answer.headers["Content-Disposition"] == named
    tag = {"If-None-Match": answer.headers["ETag"]}
    by_type = done.ada.get(f"{done.path}/brief", headers={"Accept": kind.partition(";")[0]} | tag)
    assert (by_type.status_code, by_type.data) == (304, b"")
    head = done.ada.head(f"{done.path}/brief?format={form}")
    assert (head.content_length, head.data) == (len(answer.data), b"")
    assert head.headers["Repr-Digest"] == answer.headers["Repr-Digest"]


def test_pages_that_cannot_be_set_are_told_by_their_own_code(
    done: Done, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pages, "TYPESET_S", 0.001)
    for form in ("pdf", "docx", "zip"):
        answer = done.ada.get(f"{done.path}/brief?format={form}")
        told = answer.get_json()
        assert (answer.status_code, told["code"]) == (500, "pages_not_set")
        assert "JSON, Markdown, HTML" in told["detail"]
    assert set(caplog.messages) == {"Pages were not set."}
    caplog.clear()
    assert done.ada.get(f"{done.path}/brief?format=md").status_code == 200


def test_files_that_leave_the_browser_lead_back_to_where_omnai_is_said_to_be(done: Done) -> None:
    media = f"/v1/recordings/{done.recording_id}/media".encode()
    pdf = done.ada.get(f"{done.path}/brief?format=pdf", headers={"Host": "evil.test"}).data
    assert b"http://127.0.0.1:8321" + media in pdf
    assert b"evil.test" not in pdf
    text = done.ada.get(f"{done.path}/brief?format=md", headers={"Host": "evil.test"}).data
    assert text.count(b"](") == text.count(b"](http://127.0.0.1:8321/v1/") > 1


def test_a_brief_is_compared_with_another_jobs_that_the_caller_may_see(done: Done) -> None:
    other = ended(done.database, "ada", "A chart falls.")
    bobs = ended(done.database, "bob", "A chart falls.")
    told = done.ada.get(f"{done.path}/brief?against={other}").get_json()
    (compared,) = [found for found in told["changes"] if found["basis"] == "job"]
    assert (compared["job_id"], compared["revision"]) == (other, 1)
    gone = [change for group in compared["groups"] for change in group["changes"]]
    assert ("gone", "A chart falls.") in [
        (change["kind"], (change["before"] or {}).get("observed")) for change in gone
    ]
    for job_id in (bobs, "00000000-0000-4000-8000-000000000000", "x"):
        refused = done.ada.get(f"{done.path}/brief?against={job_id}")
        assert (refused.status_code, refused.get_json()["code"]) == (404, "job_unknown")
    running = submit(done.database, "ada")
    refused = done.ada.get(f"{done.path}/brief?against={running}")
    assert (refused.status_code, refused.get_json()["code"]) == (409, "brief_missing")
    done.ada.post(f"/v1/jobs/{running}/cancel")


def test_the_schema_of_the_json_is_published(done: Done) -> None:
    answer = done.bob.get("/v1/schemas/brief")
    assert (answer.status_code, answer.content_type) == (200, "application/schema+json")
    jsonschema.validate(done.ada.get(f"{done.path}/brief").get_json(), json.loads(answer.data))
    tag = {"If-None-Match": answer.headers["ETag"]}
    assert done.bob.get("/v1/schemas/brief", headers=tag).status_code == 304


@pytest.mark.parametrize(
    ("title", "name", "is_plain"),
    [
        ("Q3 call", "Q3-call.pdf", True),
        ("../../etc/passwd", "etc-passwd.pdf", True),
        ('a"; filename="x.exe', "a-filename-x-exe.pdf", True),
        ("\u202efdp.exe\r\nX: y", "fdp-exe-X-y.pdf", True),
        ("...", "brief.pdf", True),
        ("x" * 500, "x" * 60 + ".pdf", True),
        ("トヨタ 説明会", "トヨタ-説明会.pdf", False),
    ],
)
def test_a_files_name_is_a_name_and_nothing_else(title: str, name: str, is_plain: bool) -> None:
    assert downloads.safe_name(title, ending="pdf") == name
    told = downloads.disposition(title, ending="pdf", is_shown=False)
    assert told.isascii()
    assert ("filename*=" in told) is not is_plain
    _, given = parse_options_header(told)
    assert given["filename"] == name


def test_a_briefs_links_lead_to_the_recording_and_its_frames(done: Done) -> None:
    text = done.ada.get(f"{done.path}/brief?format=md").text
    assert f"/v1/recordings/{done.recording_id}/media#t=" in text
    (told, *_) = done.ada.get(f"{done.path}/findings").get_json()["findings"]
    assert told["source"]["play"].startswith(f"/v1/recordings/{done.recording_id}/media#t=")
    assert told["source"]["frames"][0]["href"] in text


def test_the_html_brief_runs_nothing(done: Done) -> None:
    policy = done.ada.get(f"{done.path}/brief?format=html").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script" not in policy


def test_a_frame_is_served_for_ever_and_only_under_its_job(done: Done, sample_bytes: bytes) -> None:
    frame = done.ada.get(f"{done.path}/findings").get_json()["findings"][0]["source"]["frames"][0]
    answer = done.ada.get(frame["href"])
    assert answer.content_type == "image/jpeg"
    assert hashlib.sha256(answer.data).hexdigest() == frame["sha256"]
    assert "immutable" in answer.headers["Cache-Control"]
    other = done.ada.submit(done.recording_id).get_json()["id"]
    for reader, job_id, name in (
        (done.ada, other, frame["sha256"]),  # a job of hers that kept no such frame
        (done.bob, done.job_id, frame["sha256"]),
        (done.ada, done.job_id, "0" * 64),
        (done.ada, done.job_id, ".."),
    ):
        assert reader.get(f"/v1/jobs/{job_id}/frames/{name}.jpg").status_code == 404
    done.ada.post(f"/v1/jobs/{other}/cancel")


@pytest.mark.parametrize("name", ["findings", "evidence"])
def test_texts_come_in_pages_without_holes(done: Done, name: str) -> None:
    whole = done.ada.get(f"{done.path}/{name}?limit=1000").get_json()
    read, after = [], None
    while True:
        query = {"limit": 2} | ({"after": after} if after else {})
        page = done.ada.get(f"{done.path}/{name}", query_string=query).get_json()
        read += page[name]
        after = page["next"]
        if after is None:
            break
    assert read == whole[name]
    assert done.ada.get(f"{done.path}/{name}?after=x").get_json()["code"] == "cursor_refused"


def test_units_come_in_pages_without_holes(done: Done) -> None:
    read, after = [], -1
    while after is not None:
        query = {"limit": 30} | ({"after": after} if after >= 0 else {})
        page = done.ada.get(f"{done.path}/units", query_string=query).get_json()
        read += page["units"]
        after = page["next"]
    assert [unit["second"] for unit in read if unit["second"] is not None] == list(range(72))
    assert done.ada.get(f"{done.path}/units?epoch=9").get_json()["units"] == []
    assert all(0 < unit["ledger_ms"] < unit["total_ms"] for unit in read)
    # The rehearsal has no prefill to tell of.
    assert {unit["clocks"] for unit in read} == {None}


def test_epochs_are_listed_with_their_ends(done: Done) -> None:
    told = done.ada.get(f"{done.path}/epochs").get_json()
    (epoch,) = told["epochs"][:1]
    assert (epoch["number"], epoch["engine"], epoch["end_reason"]) == (1, "rehearsal", "completed")
    assert epoch["source_end_ms"] == 72_000


def test_a_job_that_has_not_begun_is_answered_with_its_state(done: Done) -> None:
    job_id = done.ada.submit(done.recording_id).get_json()["id"]
    path = f"/v1/jobs/{job_id}"
    for name in ("findings", "evidence", "units"):
        told = done.ada.get(f"{path}/{name}")
        assert (told.status_code, told.get_json()["state"]) == (200, "queued")
        assert told.get_json()[name] == []
    brief = done.ada.get(f"{path}/brief").get_json()
    assert brief["status"]["job_state"] == "queued"
    for form in ("md", "html"):
        assert done.ada.get(f"{path}/brief?format={form}").status_code == 200
    done.ada.post(f"{path}/cancel")


def test_fetching_a_brief_is_written_down(done: Done) -> None:
    done.bob.get(f"{done.path}/brief")
    done.admin.get(f"{done.path}/brief?format=md")
    newest = audit.listed(done.database, limit=1)[0]
    assert (newest.actor, newest.action, newest.subject) == (
        done.admin.key_id,
        "brief_fetched",
        done.job_id,
    )


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"from": "start"}, "/reason"),
        ({"reason": "x"}, "/from"),
        ({"from": "end", "reason": "x"}, "/from"),
        ({"from": -1, "reason": "x"}, "/from"),
        ({"from": True, "reason": "x"}, "/from"),
        ({"from": 1.5, "reason": "x"}, "/from"),
        ({"from": 1, "reason": " "}, "/reason"),
        ({"from": 1, "reason": "x", "why": 1}, "/why"),
    ],
)
def test_a_rerun_is_checked(done: Done, body: dict[str, object], where: str) -> None:
    answer = done.admin.post(f"{done.path}/epochs", json=body)
    assert answer.status_code == 422
    assert [found["pointer"] for found in answer.get_json()["errors"]] == [where]


def killed(*_: object) -> None:
    raise SystemExit("killed")


def test_only_an_admin_reruns_and_only_what_has_ended(
    done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"from": 60, "reason": "The figures at the end are wanted again."}
    path = f"{done.path}/epochs"
    refused = done.ada.post(path, json=body)
    assert (refused.status_code, refused.get_json()["code"]) == (403, "role_refused")
    end = done.admin.post(path, json={"from": "last_completed", "reason": "x"})
    assert (end.status_code, end.get_json()["code"]) == (409, "at_source_end")
    with monkeypatch.context() as patched:
        patched.setattr("api.submissions.ring", killed)
        with pytest.raises(SystemExit):
            done.admin.post(path, json=body, headers={"Idempotency-Key": "r"})
    # The request was committed before the crash: its retry is told so, and not that it is too late.
    taken = done.admin.post(path, json=body, headers={"Idempotency-Key": "r"})
    assert (taken.status_code, taken.headers["Idempotency-Replayed"]) == (202, "true")
    assert taken.get_json() == {"job_id": done.job_id, "epoch": 2, "state": "queued"}
    second = done.admin.post(path, json=body)
    assert (second.status_code, second.get_json()["code"]) == (409, "job_not_ended")
    assert work(done.app, ScriptedEngine()) is False  # not its engine
    assert work(done.app, RehearsalEngine())
    told = done.ada.get(path).get_json()
    assert [(epoch["number"], epoch["start_s"]) for epoch in told["epochs"]] == [(1, 0), (2, 60)]
    assert [(rerun["epoch"], rerun["requested_by"]) for rerun in told["reruns"]] == [(2, "root")]
    assert done.ada.get(f"{done.path}/units?epoch=1").get_json()["units"]


def test_a_link_into_a_file_that_starts_late_is_on_its_players_clock(
    app: Flask, ada: Person, tmp_path: Path
) -> None:
    late = tmp_path / "late.mp4"
    run_ffmpeg(
        *("-i", str(SAMPLES / "sample.mp4"), "-t", "18", "-c", "copy"),
        *("-output_ts_offset", "5", str(late)),
    )
    recording = ada.upload(late.read_bytes(), "late.mp4").get_json()
    # The sound's priming of 1024 samples at 48 kHz comes 21 ms before the first picture.
    assert recording["probe"]["origin_ms"] == 4979
    job_id = ada.submit(recording["id"]).get_json()["id"]
    assert work(app, RehearsalEngine())
    found = ada.get(f"/v1/jobs/{job_id}/findings").get_json()["findings"][0]["source"]
    # The second slide comes at 12 s of source time; the engine remembers one second before it.
    assert (found["generated_start_ms"], found["available_from_ms"]) == (12_000, 11_000)
    assert found["play"].partition("#")[2].startswith("t=15.979,")
