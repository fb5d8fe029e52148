"""Who is let in, as what, and what is written down."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from flask import Flask

from api.answers import SECURITY_HEADERS
from pipeline.ledger import audit, keys
from pipeline.ledger.database import Database
from pipeline.ledger.keys import Role
from tests.api.conftest import Person

OPEN = {"/healthz", "/readyz", "/sign-in", "/static/<path:filename>", "/brief.css"}


def test_every_route_but_health_and_sign_in_needs_a_key(app: Flask) -> None:
    client = app.test_client()
    for rule in app.url_map.iter_rules():
        if rule.rule in OPEN:
            continue
        path = re.sub("<[^>]*>", "1", rule.rule)
        for method in rule.methods or set():
            answer = client.open(path, method=method, buffered=True)
            if method == "OPTIONS" and path.startswith("/v1/uploads"):
                # What the protocol lets anybody ask: its version and limits, for all paths alike.
                assert (answer.status_code, answer.data) == (204, b"")
                continue
            assert answer.status_code in (401, 302, 303), (method, path)
            if path.startswith("/v1"):
                assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "given", ["Bearer omnai_x", "Bearer ", "Basic YTpi", "omnai_x", "Bearer é"]
)
def test_another_authorization_is_refused(app: Flask, given: str) -> None:
    answer = app.test_client().get("/v1/jobs", headers={"Authorization": given})
    assert (answer.status_code, answer.get_json()["code"]) == (401, "key_refused")


def test_a_key_that_expired_or_was_revoked_is_refused(app: Flask, database: Database) -> None:
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    _, expired = keys.create(database, owner="ada", role=Role.ANALYST, label="", expires_at=past)
    key, revoked = keys.create(database, owner="ada", role=Role.ANALYST, label="", expires_at=None)
    client = app.test_client()
    assert client.get("/v1/jobs", headers={"Authorization": f"bearer {revoked}"}).status_code == 200
    keys.revoke(database, key.id)
    for secret in (expired, revoked):
        answer = client.get("/v1/jobs", headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == 401


def test_a_cookie_needs_the_sessions_token_to_change_anything(
    app: Flask, ada: Person, job_id: str, sample_bytes: bytes, database: Database
) -> None:
    browser = app.test_client()
    assert browser.post("/sign-in", data={"key": ada.secret}).status_code == 200
    assert browser.get(f"/v1/jobs/{job_id}").status_code == 200
    found = re.search('name="csrf_token" value="([0-9a-f]+)"', browser.get("/jobs/new").text)
    assert found is not None
    token = found.group(1)
    cancel = f"/v1/jobs/{job_id}/cancel"
    raw = {"data": sample_bytes, "content_type": "video/mp4"}
    field = f'--b\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\n{token}\r\n'
    file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    kind = "multipart/form-data; boundary=b"
    for answer in (
        browser.post(cancel),
        browser.post(cancel, headers={"X-CSRF-Token": "0" * 64}),
        browser.post(cancel, data={"csrf_token": "é"}),
        browser.post("/v1/recordings", **raw),  # type: ignore[arg-type]
        browser.post(
            "/v1/recordings",
            data=file.encode() + sample_bytes + b"\r\n" + field.encode() + b"--b--\r\n",
            content_type=kind,
        ),
    ):
        assert (answer.status_code, answer.get_json()["code"]) == (403, "csrf_refused")
    with_field = browser.post(
        "/v1/recordings",
        data=(field + file).encode() + sample_bytes + b"\r\n--b--\r\n",
        content_type=kind,
    )
    assert with_field.status_code == 201
    headers = {"X-CSRF-Token": token}
    assert browser.post("/v1/recordings", headers=headers, **raw).status_code == 201  # type: ignore[arg-type]
    assert browser.post(cancel, headers=headers).status_code == 202
    assert audit.listed(database, limit=1)[0].actor == ada.key_id


def test_every_answer_carries_the_security_headers(app: Flask, ada: Person, job_id: str) -> None:
    for path in ("/healthz", "/v1/jobs", f"/v1/jobs/{job_id}/brief?format=html", "/v1/none"):
        answer = ada.get(path)
        for name in ("X-Content-Type-Options", "X-Frame-Options", "Content-Security-Policy"):
            assert answer.headers[name], (path, name)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert SECURITY_HEADERS["X-Content-Type-Options"] == "nosniff"
    assert ada.get("/v1/jobs").headers["Cache-Control"] == "private, no-store"


def test_what_is_not_there_and_what_is_not_accepted_are_problems(ada: Person) -> None:
    for answer, status, code in (
        (ada.get("/v1/nothing"), 404, "not_found"),
        (ada.post("/v1/jobs/x"), 405, "method_refused"),
    ):
        assert answer.status_code == status
        assert answer.content_type == "application/problem+json"
        told = answer.get_json()
        assert (told["status"], told["code"], told["type"]) == (status, code, "about:blank")
    assert "GET" in ada.post("/v1/jobs/x").headers["Allow"]


def test_a_database_that_is_away_is_told_as_that(tmp_path: object) -> None:
    from pathlib import Path

    from api import make_app
    from pipeline.settings import Settings

    url = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    client = make_app(Settings(data_dir=Path(str(tmp_path)), database_url=url)).test_client()
    assert client.get("/healthz").status_code == 200
    for path in ("/readyz", "/v1/jobs"):
        answer = client.get(path, headers={"Authorization": "Bearer omnai_x"})
        assert (answer.status_code, answer.get_json()["code"]) == (503, "database_unavailable")
        assert answer.headers["Retry-After"] == "5"
        assert "127.0.0.1" not in answer.text
