"""Uploads in parts, by tus 1.0.0: where each part goes, what counts, and what is refused."""

from __future__ import annotations

import base64
import errno
import hashlib
import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.http import parse_date
from werkzeug.test import EnvironBuilder, TestResponse, run_wsgi_app

from api import make_app, parts, uploads
from api.digests import Digests
from api.service import EXTENSION, Service
from pipeline import intake
from pipeline.errors import DiskFull
from pipeline.ledger import audit, recordings
from pipeline.ledger.database import Database
from pipeline.settings import Settings
from tests.api.conftest import Person, codes

PART_TYPE = "application/offset+octet-stream"
NOBODY = "/v1/uploads/c56a4180-65aa-42ec-a945-5fd21dec0538"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def told(*pairs: tuple[str, bytes]) -> str:
    return ",".join(f"{key} {b64(value)}" for key, value in pairs)


class Tus:
    """One person's client, which says exactly what a test wants it to say."""

    def __init__(self, person: Person) -> None:
        self.person = person

    def ask(self, method: str, path: str, **given: Any) -> TestResponse:
        version = given.pop("version", "1.0.0")
        headers = {} if version is None else {"Tus-Resumable": version}
        headers |= given.pop("headers", {})
        return self.person._ask(method, path, {"headers": headers, **given})

    def begin(self, length: int | str, data: bytes | None = None, **headers: str) -> TestResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {} if data is None else {"data": data, "content_type": PART_TYPE}
        return self.ask(
            "POST", "/v1/uploads", headers={"Upload-Length": str(length)} | named, **body
        )

    def part(self, place: str, offset: int | str, data: bytes, **headers: str) -> TestResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(
            "PATCH",
            place,
            headers={"Upload-Offset": str(offset)} | named,
            data=data,
            content_type=PART_TYPE,
        )

    def offset(self, place: str) -> int:
        answer = self.ask("HEAD", place)
        assert answer.status_code == 200
        return int(answer.headers["Upload-Offset"])


@pytest.fixture
def tus(ada: Person) -> Tus:
    return Tus(ada)


@pytest.fixture
def place(tus: Tus, sample_bytes: bytes) -> str:
    return tus.begin(len(sample_bytes)).headers["Location"]


def held(app: Flask) -> Service:
    service: Service = app.extensions[EXTENSION]
    return service


def incoming(settings: Settings) -> list[Path]:
    return sorted((settings.data_dir / "blobs" / "incoming").glob("*"))


def code(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.get_json()["code"]


def test_parts_one_after_another_become_the_recording_that_one_upload_would(
    tus: Tus, ada: Person, settings: Settings, sample_bytes: bytes
) -> None:
    begun = tus.begin(
        len(sample_bytes), Upload_Metadata=told(("filename", "../q3 ü.mp4".encode()), ("x", b""))
    )
    assert (begun.status_code, begun.data) == (201, b"")
    place, offset = begun.headers["Location"], 0
    for size in (1, 70_000, 1, len(sample_bytes)):
        part = sample_bytes[offset : offset + size]
        answer = tus.part(place, offset, part)
        offset += len(part)
        assert (answer.status_code, answer.data) == (204, b"")
        assert answer.headers["Upload-Offset"] == str(offset)
        assert tus.offset(place) == offset
    recording = ada.get(f"/v1/recordings/{answer.headers['Upload-Recording']}").get_json()
    assert recording["filename"] == "q3 ü.mp4"
    assert recording["sha256"] == hashlib.sha256(sample_bytes).hexdigest()
    assert recording["size_bytes"] == len(sample_bytes)
    assert recording == ada.upload(sample_bytes).get_json()
    assert incoming(settings) == []
    (stored,) = (settings.data_dir / "blobs").glob("??/*")
    assert stored.read_bytes() == sample_bytes


def test_what_is_known_of_an_upload_is_told_at_every_stage(
    tus: Tus, ada: Person, sample_bytes: bytes
) -> None:
    metadata = told(("filename", b"a.mp4"), ("kind", b"call"))
    place = tus.begin(len(sample_bytes), Upload_Metadata=metadata).headers["Location"]
    tus.part(place, 0, sample_bytes[:1000])
    head, seen = tus.ask("HEAD", place), ada.get(place).get_json()
    assert head.headers["Upload-Metadata"] == metadata
    assert head.headers["Upload-Length"] == str(len(sample_bytes))
    assert "no-store" in head.headers["Cache-Control"]
    assert head.data == b""
    assert (seen["state"], seen["offset_bytes"], seen["filename"]) == ("receiving", 1000, "a.mp4")
    expires = parse_date(head.headers["Upload-Expires"])
    assert expires is not None
    left_s = (expires - datetime.now(timezone.utc)).total_seconds()
    assert 23 * 3600 < left_s <= 24 * 3600
    last = tus.part(place, 1000, sample_bytes[1000:])
    seen = ada.get(place).get_json()
    assert (seen["state"], seen["recording_id"]) == ("kept", last.headers["Upload-Recording"])
    assert seen["expires_at"] is None
    assert tus.ask("HEAD", place).headers["Upload-Recording"] == seen["recording_id"]


def test_the_first_part_may_come_with_the_beginning(tus: Tus, sample_bytes: bytes) -> None:
    some = tus.begin(len(sample_bytes), sample_bytes[:5000])
    assert (some.status_code, some.headers["Upload-Offset"]) == (201, "5000")
    every = tus.begin(len(sample_bytes), sample_bytes)
    assert every.status_code == 201
    last = tus.part(some.headers["Location"], 5000, sample_bytes[5000:])
    assert last.headers["Upload-Recording"] == every.headers["Upload-Recording"]


def test_the_service_tells_what_it_can_do_of_the_protocol_to_anybody(
    app: Flask, place: str, settings: Settings
) -> None:
    for path in ("/v1/uploads", place):
        answer = app.test_client().open(path, method="OPTIONS")
        assert answer.status_code == 204
        assert answer.headers["Tus-Resumable"] == answer.headers["Tus-Version"] == "1.0.0"
        assert answer.headers["Tus-Max-Size"] == str(settings.media.file_bytes)
        assert answer.headers["Tus-Checksum-Algorithm"] == "sha1,sha256"
        assert set(answer.headers["Tus-Extension"].split(",")) == {
            "creation",
            "creation-with-upload",
            "checksum",
            "termination",
            "expiration",
        }


@pytest.mark.parametrize("version", [None, "0.2.2"])
def test_another_version_is_refused_before_anything_is_done(
    tus: Tus, place: str, database: Database, version: str | None
) -> None:
    asked = (
        ("POST", "/v1/uploads", {"Upload-Length": "5"}),
        ("HEAD", place, {}),
        ("PATCH", place, {"Upload-Offset": "0"}),
        ("DELETE", place, {}),
    )
    for method, path, headers in asked:
        answer = tus.ask(method, path, headers=headers, version=version)
        assert answer.status_code == 412, method
        assert answer.headers["Tus-Version"] == "1.0.0"
    assert tus.offset(place) == 0
    assert rows(database, "SELECT count(*) FROM uploads") == [(1,)]


def test_a_length_that_is_none_is_refused_and_one_too_large_too(
    tus: Tus, settings: Settings, database: Database
) -> None:
    for length in ("", "-1", "1e3", "0x10", "9" * 19, "0"):
        assert set(codes(tus.begin(length))) == {"Upload-Length"}, length
    assert code(tus.begin(settings.media.file_bytes + 1)) == (413, "upload_too_large")
    assert code(tus.begin(5, b"123456")) == (413, "upload_too_large")
    deferred = tus.ask("POST", "/v1/uploads", headers={"Upload-Defer-Length": "1"})
    assert deferred.status_code == 422
    assert rows(database, "SELECT count(*) FROM uploads") == [(0,)]


@pytest.mark.parametrize(
    "metadata",
    [
        "filename %%%",
        "filename YQ==,filename YQ==",
        "file,name",
        "a b c",
        ",",
        "ä YQ==",
        "x" * 4001,
    ],
)
def test_metadata_that_is_none_is_refused(tus: Tus, metadata: str) -> None:
    given = metadata.encode().decode("latin-1")
    answer = tus.begin(5, Upload_Metadata=given)
    if metadata == "file,name":  # two names without values, as the protocol allows
        assert answer.status_code == 201
    else:
        assert codes(answer) == {"Upload-Metadata": "upload_metadata_malformed"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"../../etc/passwd", "passwd"),
        (b"a\x00\xe2\x80\xaeb.mp4", "ab.mp4"),
        (b"\xff.mp4", "�.mp4"),
    ],
)
def test_the_name_in_the_metadata_is_kept_as_a_name_only(
    tus: Tus, ada: Person, given: bytes, kept: str
) -> None:
    place = tus.begin(5, Upload_Metadata=told(("filename", given))).headers["Location"]
    assert ada.get(place).get_json()["filename"] == kept


def test_a_part_for_another_place_changes_nothing(
    tus: Tus, place: str, sample_bytes: bytes
) -> None:
    tus.part(place, 0, sample_bytes[:100])
    for offset in (0, 99, 101, len(sample_bytes)):
        assert code(tus.part(place, offset, b"x")) == (409, "upload_offset_wrong")
    for offset in ("", "-1", "a"):
        assert codes(tus.part(place, offset, b"x")) == {"Upload-Offset": "upload_header_malformed"}
    assert tus.offset(place) == 100
    assert tus.part(place, 100, sample_bytes[100:]).headers["Upload-Recording"]


def test_a_part_has_its_own_content_type_and_no_more_than_is_missing(
    tus: Tus, place: str, sample_bytes: bytes
) -> None:
    wrong = tus.ask("PATCH", place, headers={"Upload-Offset": "0"}, data=b"x", content_type="a/b")
    assert code(wrong) == (415, "media_type_refused")
    long = tus.part(place, 0, sample_bytes + b"x")
    assert code(long) == (413, "upload_too_large")
    assert tus.offset(place) == 0


def test_a_part_that_is_not_what_its_checksum_says_does_not_count(
    tus: Tus, ada: Person, place: str, sample_bytes: bytes
) -> None:
    first, second = sample_bytes[:60_000], sample_bytes[60_000:]
    sha1 = f"sha1 {b64(hashlib.sha1(first).digest())}"
    sha256 = f"sha256 {b64(hashlib.sha256(second).digest())}"
    assert code(tus.part(place, 0, first[:-1] + b"x", Upload_Checksum=sha1)) == (
        460,
        "checksum_wrong",
    )
    assert tus.offset(place) == 0
    assert tus.part(place, 0, first, Upload_Checksum=sha1).status_code == 204
    assert tus.part(place, 60_000, second[:-1] + b"x", Upload_Checksum=sha256).status_code == 460
    assert tus.offset(place) == 60_000
    last = tus.part(place, 60_000, second, Upload_Checksum=sha256)
    recording = ada.get(f"/v1/recordings/{last.headers['Upload-Recording']}").get_json()
    assert recording["sha256"] == hashlib.sha256(sample_bytes).hexdigest()


def test_a_checksum_that_is_none_is_refused(tus: Tus, place: str) -> None:
    unknown = tus.part(place, 0, b"x", Upload_Checksum=f"md5 {b64(b'x' * 16)}")
    assert code(unknown) == (400, "checksum_algorithm_refused")
    malformed = tus.part(place, 0, b"x", Upload_Checksum="sha1 %%")
    assert codes(malformed) == {"Upload-Checksum": "upload_checksum_malformed"}
    assert tus.begin(5, b"12345", Upload_Checksum=f"sha1 {b64(b'x' * 20)}").status_code == 460


def test_an_upload_that_was_ended_is_gone_with_its_bytes(
    tus: Tus, ada: Person, place: str, settings: Settings
) -> None:
    tus.part(place, 0, b"x" * 1000)
    assert len(incoming(settings)) == 1
    assert tus.ask("DELETE", place).status_code == 204
    assert incoming(settings) == []
    assert tus.ask("HEAD", place).status_code == 410
    assert code(tus.part(place, 1000, b"x")) == (410, "upload_gone")
    assert code(tus.ask("DELETE", place)) == (410, "upload_gone")
    assert code(ada.get(place)) == (410, "upload_gone")


def test_a_recording_stays_when_its_upload_is_ended(
    tus: Tus, ada: Person, sample_bytes: bytes
) -> None:
    made = tus.begin(len(sample_bytes), sample_bytes)
    assert tus.ask("DELETE", made.headers["Location"]).status_code == 410
    kept = f"/v1/recordings/{made.headers['Upload-Recording']}"
    assert ada.get(f"{kept}/media").data == sample_bytes
    again = tus.part(made.headers["Location"], len(sample_bytes), b"")
    assert again.headers["Upload-Recording"] == made.headers["Upload-Recording"]


def test_anothers_upload_is_answered_as_one_that_is_not_there(
    tus: Tus, bob: Person, admin: Person, place: str
) -> None:
    other = Tus(bob)
    for path in (place, NOBODY, "/v1/uploads/x'--"):
        asked = (
            other.ask("HEAD", path),
            other.part(path, 0, b"x"),
            other.ask("DELETE", path),
            bob.get(path),
        )
        assert [answer.status_code for answer in asked] == [404] * 4
        assert "Upload-Offset" not in asked[0].headers
    assert tus.offset(place) == 0
    assert admin.get(place).status_code == 200


def test_an_upload_without_a_key_or_a_sessions_token_is_refused(
    app: Flask, ada: Person, place: str
) -> None:
    with app.test_client() as browser:
        headers = {"Tus-Resumable": "1.0.0", "Upload-Length": "5", "Upload-Offset": "0"}
        asked = (("POST", "/v1/uploads"), ("PATCH", place), ("DELETE", place))
        for method, path in asked:
            answer = browser.open(path, method=method, headers=headers, content_type=PART_TYPE)
            assert answer.status_code == 401
        browser.post("/sign-in", data={"key": ada.secret})
        for method, path in asked:
            answer = browser.open(path, method=method, headers=headers, content_type=PART_TYPE)
            assert code(answer) == (403, "csrf_refused"), method
        assert browser.head(place, headers=headers).headers["Upload-Offset"] == "0"


def test_a_client_that_can_only_post_says_what_it_means(
    tus: Tus, place: str, sample_bytes: bytes
) -> None:
    put = tus.ask(
        "POST",
        place,
        headers={"X-HTTP-Method-Override": "PATCH", "Upload-Offset": "0"},
        data=sample_bytes[:10],
        content_type=PART_TYPE,
    )
    assert (put.status_code, tus.offset(place)) == (204, 10)
    plain = tus.ask("POST", place)
    assert (plain.status_code, "PATCH" in plain.headers["Allow"]) == (405, True)
    ended = tus.ask("POST", place, headers={"X-HTTP-Method-Override": "DELETE"})
    assert (ended.status_code, tus.ask("HEAD", place).status_code) == (204, 410)


def test_a_whole_file_that_is_no_recording_is_refused_and_the_reason_kept(
    tus: Tus, ada: Person, settings: Settings
) -> None:
    place = tus.begin(2000).headers["Location"]
    tus.part(place, 0, b"id,name\n" * 200)
    refused = tus.part(place, 1600, b"id,name\n" * 50)
    assert refused.status_code == 422
    assert incoming(settings) == []
    seen = ada.get(place).get_json()
    assert (seen["state"], seen["recording_id"]) == ("refused", None)
    assert seen["refusal"] == refused.get_json()
    assert tus.ask("HEAD", place).status_code == 410
    assert tus.part(place, 2000, b"").status_code == 410


def test_only_one_writes_to_an_upload_at_a_time(
    app: Flask, tus: Tus, place: str, sample_bytes: bytes
) -> None:
    upload_id = place.rpartition("/")[2]
    with parts.holding(held(app), upload_id):
        assert code(tus.part(place, 0, sample_bytes)) == (423, "upload_busy")
        assert code(tus.ask("DELETE", place)) == (423, "upload_busy")
        assert tus.offset(place) == 0
    assert tus.part(place, 0, sample_bytes[:7]).status_code == 204


def test_bytes_beyond_the_offset_are_cut_off_and_lost_ones_asked_for_again(
    app: Flask, tus: Tus, ada: Person, place: str, settings: Settings, sample_bytes: bytes
) -> None:
    tus.part(place, 0, sample_bytes[:50_000])
    (file,) = incoming(settings)
    # As a process leaves it that was killed between a write and the sync after it.
    file.write_bytes(sample_bytes[:50_000] + b"x" * (len(sample_bytes) - 50_000))
    assert tus.offset(place) == 50_000
    # As a disk leaves it that lied about a sync; the digest of more bytes must not be gone on with.
    file.write_bytes(sample_bytes[:30_000])
    assert tus.offset(place) == 30_000
    assert tus.part(place, 50_000, sample_bytes[50_000:]).status_code == 409
    tus.part(place, 30_000, sample_bytes[30_000:40_000])
    file.unlink()
    assert tus.offset(place) == 0
    last = tus.part(place, 0, sample_bytes)
    recording = ada.get(f"/v1/recordings/{last.headers['Upload-Recording']}").get_json()
    assert recording["sha256"] == hashlib.sha256(sample_bytes).hexdigest()


def test_bytes_are_hashed_as_they_come_and_again_only_in_another_process(
    app: Flask, tus: Tus, ada: Person, place: str, sample_bytes: bytes
) -> None:
    upload_id = place.rpartition("/")[2]
    tus.part(place, 0, sample_bytes[:1000])
    tus.part(place, 1000, sample_bytes[1000:9000])
    digest = held(app).digests.take(upload_id, offset_bytes=9000)
    assert digest is not None
    assert digest.hexdigest() == hashlib.sha256(sample_bytes[:9000]).hexdigest()
    # Taken out, so that from here on this process knows as little as one that was started anew.
    tus.part(place, 9000, sample_bytes[9000:10_000])
    last = tus.part(place, 10_000, sample_bytes[10_000:])
    recording = ada.get(f"/v1/recordings/{last.headers['Upload-Recording']}").get_json()
    assert recording["sha256"] == hashlib.sha256(sample_bytes).hexdigest()


def test_a_digest_is_only_gone_on_with_where_it_ends() -> None:
    digests = Digests()
    digests.put("a", hashlib.sha256(b"abc"), offset_bytes=3)
    assert digests.take("a", offset_bytes=2) is None
    assert digests.take("a", offset_bytes=3) is None
    fresh = digests.take("b", offset_bytes=0)
    assert fresh is not None
    assert fresh.hexdigest() == hashlib.sha256().hexdigest()


@pytest.mark.parametrize(
    ("where", "method"),
    [("examine", "GET"), ("name_upload", "PATCH"), ("finish_upload", "HEAD"), ("after", "HEAD")],
)
def test_a_whole_file_whose_process_was_killed_becomes_a_recording_when_it_is_asked_after(
    app: Flask,
    tus: Tus,
    ada: Person,
    place: str,
    sample_bytes: bytes,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    method: str,
) -> None:
    module: Any = intake if where == "examine" else recordings
    name = "finish_upload" if where == "after" else where
    real: Callable[..., object] = getattr(module, name)

    def die(*given: Any, **named: Any) -> None:
        if where == "after":
            real(*given, **named)
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(module, name, die)
        with pytest.raises(SystemExit):
            tus.part(place, 0, sample_bytes)
    held(app).digests.take(place.rpartition("/")[2], offset_bytes=0)
    if method == "PATCH":
        answer = tus.part(place, len(sample_bytes), b"")
    else:
        answer = tus.ask(method, place)
    assert answer.headers["Upload-Offset"] == str(len(sample_bytes))
    recording = ada.get(f"/v1/recordings/{answer.headers['Upload-Recording']}").get_json()
    assert recording["sha256"] == hashlib.sha256(sample_bytes).hexdigest()
    assert ada.get(f"/v1/recordings/{recording['id']}/media").data == sample_bytes


def test_uploads_that_nobody_goes_on_with_are_given_up_and_others_are_not(
    app: Flask, tus: Tus, ada: Person, settings: Settings, database: Database, sample_bytes: bytes
) -> None:
    kept = tus.begin(len(sample_bytes), sample_bytes).headers["Location"]
    going, old = (tus.begin(9, b"123").headers["Location"] for _ in range(2))
    # As a killed process leaves a plain upload.
    killed = recordings.begin_upload(database, owner="ada", filename="a.mp4")
    store = held(app).blobs
    store.begin(killed).write_bytes(b"half")
    # As a process leaves one that was killed between the row's end and the file's.
    left = recordings.begin_upload(database, owner="ada", filename="a.mp4")
    store.begin(left).write_bytes(b"half")
    recordings.abandon_upload(database, left)
    for upload_id in (old.rpartition("/")[2], killed, kept.rpartition("/")[2]):
        execute(
            database,
            "UPDATE uploads SET expires_at = now() - interval '1 second' WHERE id = :id",
            id=upload_id,
        )
    assert tus.ask("HEAD", old).status_code == 410
    assert tus.part(old, 3, b"x").status_code == 410
    again = make_app(settings)  # as after a new start
    assert again.test_client().get("/healthz", buffered=True).status_code == 200
    service: Service = again.extensions[EXTENSION]
    service.database.dispose()
    assert [path.name for path in incoming(settings)] == [going.rpartition("/")[2]]
    assert rows(database, "SELECT id::text FROM uploads WHERE closed_at IS NULL") == [
        (going.rpartition("/")[2],)
    ]
    assert tus.offset(going) == 3
    assert ada.get(kept).get_json()["state"] == "kept"


def test_an_upload_is_written_down_when_it_begins_ends_and_becomes_a_recording(
    tus: Tus, database: Database, sample_bytes: bytes
) -> None:
    tus.begin(len(sample_bytes), sample_bytes)
    tus.ask("DELETE", tus.begin(5).headers["Location"])
    actions = [entry.action for entry in audit.listed(database, limit=10)]
    assert actions == ["upload_ended", "upload_begun", "recording_uploaded", "upload_begun"]


def test_a_connection_that_falls_silent_gives_its_upload_free(
    app: Flask, ada: Person, tus: Tus, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "SILENCE_S", 0.1)
    near, far = socket.socketpair()
    with near, far, near.makefile("rb") as body:
        far.sendall(b"x" * 1000)
        builder = EnvironBuilder(
            path=place,
            method="PATCH",
            headers=ada.headers | {"Tus-Resumable": "1.0.0", "Upload-Offset": "0"},
            content_type=PART_TYPE,
        )
        environ = builder.get_environ()
        builder.close()
        # As gunicorn hands them on; no more comes, and no end either.
        environ |= {"wsgi.input": body, "gunicorn.socket": near, "CONTENT_LENGTH": "5000"}
        _, status, _ = run_wsgi_app(app, environ, buffered=True)
    assert status == "400 BAD REQUEST"
    assert tus.part(place, tus.offset(place), b"x").status_code == 204


def test_a_full_disk_leaves_what_counted(
    app: Flask, tus: Tus, place: str, settings: Settings
) -> None:
    tus.part(place, 0, b"x" * 100)

    def chunks() -> Iterator[bytes]:
        yield b"y" * 100
        raise OSError(errno.ENOSPC, "full")

    with parts.holding(held(app), place.rpartition("/")[2]) as (upload, file):
        assert file is not None
        with pytest.raises(DiskFull):
            parts.write(held(app), upload, file, chunks(), checksum=None)
    (kept,) = incoming(settings)
    assert kept.read_bytes() == b"x" * 100
    assert tus.offset(place) == 100


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.transaction() as session:
        return [tuple(row) for row in session.execute(text(statement))]


def execute(database: Database, statement: str, **values: object) -> None:
    with database.transaction() as session:
        session.execute(text(statement), values)
