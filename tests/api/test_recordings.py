"""Uploads: what is kept, what is refused, and what nobody can learn from them."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.test import EnvironBuilder, run_wsgi_app

from api.service import EXTENSION, Service
from pipeline.ledger import recordings
from pipeline.settings import Settings
from tests.api.conftest import Person, codes


def form(content: bytes, name: str = "a.mp4", *, before: str = "", field: str = "file") -> Any:
    """A form by hand: the test client would put a large one into a file."""
    part = f'--b\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    body = before.encode() + part.encode() + content + b"\r\n--b--\r\n"
    return {"data": body, "content_type": "multipart/form-data; boundary=b"}


def files(settings: Settings) -> list[Path]:
    return sorted(path for path in (settings.data_dir / "blobs").rglob("*") if path.is_file())


def test_a_raw_upload_is_stored_and_answered_with_its_probe(
    ada: Person, settings: Settings, sample_bytes: bytes
) -> None:
    answer = ada.post(
        "/v1/recordings",
        data=sample_bytes,
        content_type="video/mp4",
        headers={"Content-Disposition": "attachment; filename*=UTF-8''q3%20%C3%BC.mp4"},
    )
    told = answer.get_json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/v1/recordings/{told['id']}"
    assert told["filename"] == "q3 ü.mp4"
    assert told["sha256"] == hashlib.sha256(sample_bytes).hexdigest()
    assert told["size_bytes"] == len(sample_bytes)
    assert {stream["kind"] for stream in told["probe"]["streams"]} == {"audio", "video"}
    (stored,) = files(settings)
    assert stored.name == told["sha256"]
    assert stored.read_bytes() == sample_bytes


def test_a_form_gives_the_same_recording_as_the_raw_body(
    ada: Person, recording_id: str, settings: Settings, sample_bytes: bytes
) -> None:
    answer = ada.post("/v1/recordings", **form(sample_bytes, "again.mp4"))
    assert answer.status_code == 201
    assert answer.get_json()["id"] == recording_id
    assert len(files(settings)) == 1


def test_a_form_is_not_gathered_in_memory_or_written_twice(
    app: Flask, ada: Person, sample_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise AssertionError("the form's own parser was used")

    monkeypatch.setattr("werkzeug.formparser.FormDataParser.parse", refuse)
    assert ada.post("/v1/recordings", **form(sample_bytes)).status_code == 201


def test_two_owners_of_the_same_bytes_have_two_recordings_on_one_blob(
    ada: Person, bob: Person, settings: Settings, sample_bytes: bytes
) -> None:
    first, second = ada.upload(sample_bytes), bob.upload(sample_bytes)
    assert first.status_code == second.status_code == 201
    assert first.get_json()["id"] != second.get_json()["id"]
    assert first.get_json()["created_at"] < second.get_json()["created_at"]
    assert len(files(settings)) == 1


def test_anothers_recording_is_answered_as_one_that_is_not_there(
    ada: Person, bob: Person, admin: Person, recording_id: str
) -> None:
    missing = "00000000-0000-4000-8000-000000000000"
    for path in ("/v1/recordings/{}", "/v1/recordings/{}/media"):
        theirs, none = bob.get(path.format(recording_id)), bob.get(path.format(missing))
        assert theirs.status_code == none.status_code == 404
        assert theirs.data == none.data
        assert dict(theirs.headers) == dict(none.headers)
        assert admin.get(path.format(recording_id)).status_code == 200
        assert bob.get(path.format("x'--")).data == none.data


def test_what_is_no_recording_is_refused_and_its_temporary_file_removed(
    ada: Person, settings: Settings
) -> None:
    answer = ada.upload(b"id,name\n" * 100, "notes.txt")
    assert answer.status_code == 422
    assert answer.content_type == "application/problem+json"
    assert files(settings) == []
    assert ada.upload(b"").status_code == 422
    assert files(settings) == []


def test_a_refused_upload_leaves_the_same_bytes_of_others_alone(
    ada: Person, settings: Settings, recording_id: str, sample_bytes: bytes
) -> None:
    assert ada.upload(sample_bytes[:1000]).status_code == 422
    (stored,) = files(settings)
    assert stored.read_bytes() == sample_bytes


@pytest.mark.parametrize("is_form", [False, True])
def test_a_file_above_the_limit_is_refused_while_it_streams(
    app: Flask, ada: Person, settings: Settings, is_form: bool
) -> None:
    body = b"x" * (settings.media.file_bytes + 1)
    answer = ada.post("/v1/recordings", **form(body)) if is_form else ada.upload(body)
    assert answer.status_code == 413
    assert answer.get_json()["code"] == "upload_too_large"
    assert files(settings) == []
    assert ada.upload(body + b"x" * 100_000).get_json()["code"] == "request_too_large"


def test_an_upload_that_breaks_off_leaves_nothing(
    app: Flask, ada: Person, settings: Settings, sample_bytes: bytes
) -> None:
    builder = EnvironBuilder(path="/v1/recordings", method="POST", headers=ada.headers)
    environ = builder.get_environ()
    environ["wsgi.input"] = io.BytesIO(sample_bytes[:5000])
    environ["CONTENT_LENGTH"] = str(len(sample_bytes))
    # Not by the test client, which would tell the length of what is there.
    _, status, _ = run_wsgi_app(app, environ, buffered=True)
    builder.close()
    assert status == "400 BAD REQUEST"
    assert files(settings) == []
    service: Service = app.extensions[EXTENSION]
    with service.database.transaction() as session:
        rows = session.execute(text("SELECT closed_at IS NOT NULL, recording_id FROM uploads"))
        assert [tuple(row) for row in rows] == [(True, None)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\films\\q3.mp4", "q3.mp4"),
        ("a\x00b\n.mp4", "ab.mp4"),
        ("safe\u202e4pm.exe", "safe4pm.exe"),
        ("..", "recording"),
        ("x" * 300 + ".mp4", "x" * 251 + ".mp4"),
    ],
)
def test_a_file_name_is_kept_as_a_name_only(
    ada: Person, sample_bytes: bytes, given: str, kept: str
) -> None:
    assert ada.upload(sample_bytes, given).get_json()["filename"] == kept


def test_a_form_with_another_field_is_refused_by_its_name(
    ada: Person, settings: Settings, sample_bytes: bytes
) -> None:
    note = '--b\r\nContent-Disposition: form-data; name="note"\r\n\r\nx\r\n'
    for given in (form(sample_bytes, before=note), form(sample_bytes, field="film")):
        answer = ada.post("/v1/recordings", **given)
        assert answer.status_code == 422
        assert "no such field" in answer.get_json()["detail"]


def test_a_form_that_is_none_is_refused(ada: Person, settings: Settings) -> None:
    kind = "multipart/form-data"
    assert ada.post("/v1/recordings", data=b"x", content_type=kind).status_code == 400
    kind += "; boundary=b"
    for body, status in ((b"\r\n", 400), (b"--b--\r\n", 422), (form(b"x" * 99)["data"][:-9], 400)):
        answer = ada.post("/v1/recordings", data=body, content_type=kind)
        assert answer.status_code == status, body
    assert files(settings) == []


def test_other_content_types_are_refused(ada: Person) -> None:
    answer = ada.post("/v1/recordings", json={"a": 1})
    assert (answer.status_code, answer.get_json()["code"]) == (415, "media_type_refused")


def test_an_upload_with_a_key_is_answered_once(
    ada: Person, settings: Settings, sample_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = recordings.finish_upload

    def finish_and_die(*given: Any, **named: Any) -> None:
        finish(*given, **named)
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(recordings, "finish_upload", finish_and_die)
        with pytest.raises(SystemExit):
            ada.upload(sample_bytes, **{"Idempotency-Key": "k1"})
    first = ada.upload(sample_bytes, **{"Idempotency-Key": "k1"})
    again = ada.upload(sample_bytes, **{"Idempotency-Key": "k1"})
    assert (again.status_code, again.data) == (201, first.data)
    assert first.headers["Idempotency-Replayed"] == again.headers["Idempotency-Replayed"] == "true"
    assert ada.get(first.headers["Location"]).get_json() == first.get_json()
    other = ada.upload(sample_bytes, "other.mp4", **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.get_json()["code"]) == (422, "idempotency_conflict")
    assert len(files(settings)) == 1
    bad = ada.upload(sample_bytes, **{"Idempotency-Key": "ä b"})
    assert codes(bad) == {"Idempotency-Key": "idempotency_key_malformed"}
