"""The API as `omnai serve` runs it, with points in its process, and what a client asks of it."""

from __future__ import annotations

import io
import os
import subprocess
import wave
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx

from omnai.processes import api_command
from pipeline.ledger import keys
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.faults.host import Host
from tests.hosts import OWNER, ROOT, until
from tests.service import await_ready, free_port

RATE_HZ = 16_000

TIMEOUT_S = 90.0
"""A request may be held while a second server starts on a busy machine."""

HOLDINGS = [
    {
        "id": "H1",
        "name": "Alpha Corp",
        "ticker": "ALP",
        "asset_type": "equity",
        "currency": "USD",
        "weight_pct": "100",
    }
]


@dataclass
class Api:
    http: httpx.Client
    """Of an admin, who owns the recordings too."""
    process: subprocess.Popen[bytes]

    def worker(self) -> int:
        """The process that answers; gunicorn's master puts another in its place."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return until(lambda: [int(pid) for pid in path.read_text().split()])[-1]

    def ask(self, host: Host, *, count: int = 6, key: str | None = None) -> httpx.Response:
        return self.submit(host.upload(count).id, key=key)

    def submit(
        self, recording_id: str, *, key: str | None = None, **options: int
    ) -> httpx.Response:
        return self.http.post(
            "/v1/jobs",
            json={
                "recording_id": recording_id,
                "portfolio": HOLDINGS,
                "objective": "Look.",
                "engine": "test",
                "options": options,
            },
            headers={} if key is None else {"Idempotency-Key": key},
        )

    def upload(self, content: bytes, *, key: str) -> httpx.Response:
        return self.http.post("/v1/recordings", content=content, headers=_upload_headers(key))

    @contextmanager
    def half_uploaded(self, content: bytes, *, key: str) -> Iterator[HTTPConnection]:
        """The first half has gone out, and the other is still to come."""
        url = self.http.base_url
        with closing(HTTPConnection(url.host, url.port, timeout=TIMEOUT_S)) as connection:
            connection.putrequest("POST", "/v1/recordings")
            for name, value in {**self.http.headers, **_upload_headers(key)}.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(content)))
            connection.endheaders()
            connection.send(content[: len(content) // 2])
            yield connection

    def cancel(self, job_id: str) -> httpx.Response:
        return self.http.post(f"/v1/jobs/{job_id}/cancel")

    def rerun(self, job_id: str, start: str | int) -> httpx.Response:
        return self.http.post(
            f"/v1/jobs/{job_id}/epochs", json={"from": start, "reason": "It had failed."}
        )

    def job(self, job_id: str) -> dict[str, Any]:
        return self._shown(f"/v1/jobs/{job_id}")

    def epochs(self, job_id: str) -> dict[str, Any]:
        return self._shown(f"/v1/jobs/{job_id}/epochs")

    def brief(self, job_id: str) -> dict[str, Any]:
        return self._shown(f"/v1/jobs/{job_id}/brief?format=json")

    def _shown(self, place: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(place).raise_for_status().json()
        return found


def _upload_headers(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key, "Content-Type": "audio/wav"}


def sound(seconds: int) -> bytes:
    """A file of so many seconds, which says so in its first bytes."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        written.writeframes(b"\x11\x22" * RATE_HZ * seconds)
    return file.getvalue()


@contextmanager
def signed_in(host: Host, api: Api, owner: str) -> Iterator[Api]:
    """The same server for another admin."""
    with httpx.Client(
        base_url=api.http.base_url, headers=_key(host, owner), timeout=TIMEOUT_S
    ) as http:
        yield Api(http, api.process)


def _key(host: Host, owner: str) -> dict[str, str]:
    _, secret = keys.create(host.database, owner=owner, role=Role.ADMIN, label="", expires_at=None)
    return {"Authorization": f"Bearer {secret}"}


@contextmanager
def serving(host: Host, **variables: str) -> Iterator[Api]:
    settings: Settings = replace(host.settings, bind=f"127.0.0.1:{free_port()}")
    command = [
        "tests.faults.api:app" if part == "api.wsgi:app" else part
        for part in api_command(settings, graceful_s=1)
    ]
    settings.data_dir.mkdir(exist_ok=True)
    with (host.folder / "api.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | settings.to_environment() | host.environment | variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    url = f"http://{settings.bind}"
    with httpx.Client(base_url=url, headers=_key(host, OWNER), timeout=TIMEOUT_S) as http:
        try:
            await_ready(http)
            yield Api(http, process)
        finally:
            process.terminate()
            process.wait(timeout=30)
