"""The real application on a port of its own, for tests of the pages."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.serving import make_server

from api import make_app
from api.session import COOKIE
from pipeline.ledger import jobs, keys, recordings, views
from pipeline.ledger.database import Database, connect
from pipeline.ledger.keys import Key, Role
from pipeline.ledger.recordings import Recording
from pipeline.records import JobState
from pipeline.settings import Settings

OBJECTIVE = "What was said of guidance & margins?"
SAMPLES = Path(__file__).parents[2] / "samples"


@dataclass(frozen=True, kw_only=True)
class Site:
    """The real application on a port of its own, and keys to it."""

    settings: Settings
    database: Database
    origin: str
    app: Any
    blobs: dict[str, Recording]
    """What was uploaded once, by name, so that a test that is about another thing does not."""
    owner: str = ""
    """An analyst of this test alone."""

    def key(self, owner: str | None = None, role: Role = Role.ANALYST) -> tuple[Key, str]:
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        owner = self.owner if owner is None else owner
        return keys.create(self.database, owner=owner, role=role, label="test", expires_at=tomorrow)

    def link(self, owner: str | None = None, role: Role = Role.ANALYST) -> str:
        token = keys.make_sign_in(self.database, self.key(owner, role)[0].id, lifetime_s=60)
        return f"/sign-in?token={token}"

    def cookie(self, **who: Any) -> tuple[str, str]:
        client = self.app.test_client()
        client.get(self.link(**who))
        return COOKIE, client.get_cookie(COOKIE).value

    def recording(self, path: Path, owner: str | None = None) -> str:
        """The id of a recording of this owner; its bytes are uploaded and probed once."""
        if path.name not in self.blobs:
            self.blobs[path.name] = self._uploaded(path)
        stored = self.blobs[path.name]
        facts: Any = {"sha256": stored.sha256, "size_bytes": stored.size_bytes}
        owner = self.owner if owner is None else owner
        upload_id = recordings.begin_upload(self.database, owner=owner, filename=path.name)
        recordings.name_upload(self.database, upload_id, **facts)
        return recordings.finish_upload(self.database, upload_id, **facts, probe=stored.probe).id

    def _uploaded(self, path: Path) -> Recording:
        answer = self.app.test_client().post(
            "/v1/recordings",
            query_string={"filename": path.name},
            data=path.read_bytes(),
            content_type="application/octet-stream",
            headers={"Authorization": f"Bearer {self.key('first')[1]}"},
        )
        return recordings.get(self.database, answer.json["id"], owner=None)


def closing(app: Any) -> Any:
    """The application, its files closed however the exchange ends: Werkzeug's server leaves them
    open where a browser goes away at the wrong moment, which gunicorn does not."""

    def closed(environ: Any, start_response: Any) -> Iterator[bytes]:
        body = app(environ, start_response)
        try:
            yield from body
        finally:
            body.close()

    return closed


@pytest.fixture(scope="module")
def running(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("pages") / "data",
        database_url=module_database_url,
        redis_url=valkey_url,
        host_name="pages",
    )
    app = make_app(settings, engines=("rehearsal", "scripted"))
    server = make_server("127.0.0.1", 0, closing(app), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    database = connect(module_database_url)
    origin = f"http://127.0.0.1:{server.server_port}"
    try:
        yield Site(settings=settings, database=database, origin=origin, app=app, blobs={})
    finally:
        app.extensions["omnai"].watcher.close()
        server.shutdown()
        thread.join()
        server.server_close()
        database.dispose()
        app.extensions["omnai"].database.dispose()


@pytest.fixture
def site(running: Site) -> Iterator[Site]:
    """With an analyst who has nothing yet, and a queue that is empty before and after."""
    yield replace(running, owner=f"ana-{uuid.uuid4().hex[:8]}")
    queued, _ = views.page(running.database, owner=None, state=JobState.QUEUED, limit=100)
    for job in queued:
        jobs.request_cancel(running.database, job.id)


@pytest.fixture
def client(site: Site) -> FlaskClient:
    client: FlaskClient = site.app.test_client()
    return client


def signed_in(site: Site, client: FlaskClient, **who: Any) -> str:
    """Sign the client in and return its CSRF token."""
    assert client.get(site.link(**who)).status_code == 200
    found = re.search(r'name="csrf-token" content="([^"]+)"', client.get("/jobs").text)
    assert found is not None
    return found[1]
