"""The real application over a real database, and people with keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api import make_app
from api.service import EXTENSION, Service
from pipeline.engine.session import Engine
from pipeline.ledger import keys
from pipeline.ledger.database import Database
from pipeline.ledger.keys import Role
from pipeline.settings import MediaLimits, Settings
from worker.station import Station

SAMPLES = Path(__file__).parents[2] / "samples"

HOLDINGS = json.loads((SAMPLES / "portfolio.json").read_text())


@dataclass(frozen=True)
class Person:
    """Somebody with a key, and a client that sends it."""

    client: FlaskClient
    secret: str
    key_id: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}

    def get(self, path: str, **given: Any) -> TestResponse:
        return self._ask("GET", path, given)

    def head(self, path: str, **given: Any) -> TestResponse:
        return self._ask("HEAD", path, given)

    def post(self, path: str, **given: Any) -> TestResponse:
        return self._ask("POST", path, given)

    def upload(self, content: bytes, name: str = "call.mp4", **headers: str) -> TestResponse:
        return self.post(
            "/v1/recordings",
            query_string={"filename": name},
            data=content,
            content_type="application/octet-stream",
            headers=headers,
        )

    def submit(self, recording_id: str, **changes: Any) -> TestResponse:
        return self.post("/v1/jobs", json=submission(recording_id, **changes))

    def _ask(self, method: str, path: str, given: dict[str, Any]) -> TestResponse:
        headers = self.headers | given.pop("headers", {})
        return self.client.open(path, method=method, headers=headers, buffered=True, **given)


def submission(recording_id: str, **changes: Any) -> dict[str, Any]:
    """A body that is accepted; name what differs, None to leave it out."""
    body = {"recording_id": recording_id, "portfolio": HOLDINGS, "objective": "What of margins?"}
    return {name: value for name, value in (body | changes).items() if value is not None}


def codes(answer: TestResponse) -> dict[str, str]:
    """Where each thing is wrong, and how it is called."""
    return {
        found.get("pointer", found.get("parameter", "")): found["code"]
        for found in answer.get_json()["errors"]
    }


@pytest.fixture(scope="session")
def sample_bytes() -> bytes:
    return (SAMPLES / "sample.mp4").read_bytes()


@pytest.fixture
def settings(tmp_path: Path, database_url: str, valkey_url: str) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        database_url=database_url,
        redis_url=valkey_url,
        host_name="here",
        waiters_max=2,
        media=MediaLimits(file_bytes=2_000_000),
    )


@pytest.fixture
def app(settings: Settings) -> Iterator[Flask]:
    made = make_app(settings)
    yield made
    service: Service = made.extensions[EXTENSION]
    service.watcher.close()
    service.database.dispose()


@pytest.fixture
def database(app: Flask) -> Database:
    service: Service = app.extensions[EXTENSION]
    return service.database


def person(app: Flask, owner: str, role: Role = Role.ANALYST) -> Person:
    service: Service = app.extensions[EXTENSION]
    key, secret = keys.create(service.database, owner=owner, role=role, label="", expires_at=None)
    return Person(client=app.test_client(use_cookies=False), secret=secret, key_id=key.id)


@pytest.fixture
def ada(app: Flask) -> Person:
    return person(app, "ada")


@pytest.fixture
def bob(app: Flask) -> Person:
    return person(app, "bob")


@pytest.fixture
def admin(app: Flask) -> Person:
    return person(app, "root", Role.ADMIN)


@pytest.fixture
def recording_id(ada: Person, sample_bytes: bytes) -> str:
    return str(ada.upload(sample_bytes).get_json()["id"])


@pytest.fixture
def job_id(ada: Person, recording_id: str) -> str:
    return str(ada.submit(recording_id).get_json()["id"])


def work(app: Flask, engine: Engine) -> bool:
    """Run the next job here, as a worker does."""
    service: Service = app.extensions[EXTENSION]
    return Station(service.settings, engine=engine, database=service.database).work()
