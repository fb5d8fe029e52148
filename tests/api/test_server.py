"""The service as a real process: uploads, waiting, and whether the OpenAPI document is true."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.ledger import jobs, keys
from pipeline.ledger.database import Database, connect
from pipeline.ledger.keys import Role
from tests.api.conftest import submission

ROOT = Path(__file__).parents[2]

LONG_SETTING = "OMNAI_TEST_LONG"
IS_LONG = os.environ.get(LONG_SETTING) == "1"

SEED = "1"
EXAMPLES = 100 if IS_LONG else 12
"""For an operation: enough to meet every check, few enough for every run."""

PHASES = "examples,coverage,fuzzing,stateful" if IS_LONG else "examples,coverage,fuzzing"

# Another version of tus is refused with 412 whatever else is wrong, and a part is bare bytes.
CONFIG = """
hooks = "./hooks.py"

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "412", "415", "422", "5xx"]

[checks.missing_required_header]
expected-statuses = ["400", "401", "412", "422"]

# A header that nobody knows is no reason to refuse what needs nothing else.
[[operations]]
include-name = "POST /v1/uploads"
checks.negative_data_rejection.enabled = false
"""
HOOKS = """
import schemathesis

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
"""

# Each upload is probed by a process of its own, which takes as long as a hundred other requests.
BRIEF_CONFIG = """
[[operations]]
include-name = "POST /v1/recordings"
phases.coverage.enabled = false
"""


@dataclass(frozen=True)
class Server:
    """A running one, with a key for it."""

    port: int
    secret: str
    database: Database

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Authorization": f"Bearer {self.secret}"} | headers
        chunked = not isinstance(body, bytes | str | None)
        connection.request(method, path, body, given, encode_chunked=chunked)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def ask_json(self, method: str, path: str, body: Any, **headers: str) -> dict[str, Any]:
        kind = {"Content-Type": "application/json"}
        _, content = self.ask(method, path, json.dumps(body), **(kind | headers))
        told: dict[str, Any] = json.loads(content)
        return told


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder, port = tmp_path_factory.mktemp("server"), _free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMNAI_")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "api.wsgi:app", "-b", f"127.0.0.1:{port}"),
                *("-k", "gthread", "--threads", "16", "--limit-request-line", "8190"),
            ],
            env=kept
            | {
                "OMNAI_DATABASE_URL": module_database_url,
                "OMNAI_REDIS_URL": valkey_url,
                "OMNAI_DATA_DIR": str(folder / "data"),
                "PYTHONPATH": str(ROOT),
            },
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    database = connect(module_database_url)
    _, secret = keys.create(database, owner="ada", role=Role.ADMIN, label="", expires_at=None)
    made = Server(port, secret, database)
    try:
        _await(made, process, folder / "log")
        yield made
    finally:
        process.terminate()
        assert process.wait(30) == 0
        database.dispose()
    assert "Traceback" not in (folder / "log").read_text()


def _await(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if server.ask("GET", "/readyz")[0].status == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def job_id(server: Server, sample_bytes: bytes) -> str:
    # In chunks, without a length: as a client sends what it does not have whole.
    parts = (sample_bytes[at : at + 50_000] for at in range(0, len(sample_bytes), 50_000))
    headers = {"Content-Type": "video/mp4", "Transfer-Encoding": "chunked"}
    answer, content = server.ask("POST", "/v1/recordings?filename=a.mp4", parts, **headers)
    assert answer.status == 201, content
    recording = json.loads(content)
    assert recording["size_bytes"] == len(sample_bytes)
    return str(server.ask_json("POST", "/v1/jobs", submission(recording["id"]))["id"])


def test_an_upload_that_is_cut_off_is_no_recording(server: Server, sample_bytes: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        head = (
            f"POST /v1/recordings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.secret}\r\n"
            f"Content-Length: {len(sample_bytes)}\r\n\r\n"
        )
        raw.sendall(head.encode() + sample_bytes[:10_000])
        raw.shutdown(socket.SHUT_WR)
        answer = raw.recv(1000)
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_range_of_the_recording_comes_over_the_wire(
    server: Server, job_id: str, sample_bytes: bytes
) -> None:
    media = json.loads(server.ask("GET", f"/v1/jobs/{job_id}")[1])["links"]["media"]
    answer, content = server.ask("GET", media, Range="bytes=1000-1999")
    assert (answer.status, content) == (206, sample_bytes[1000:2000])
    answer, content = server.ask("HEAD", media)
    assert (answer.status, content) == (200, b"")
    assert answer.headers["Content-Length"] == str(len(sample_bytes))


def test_a_waiting_request_is_woken_and_others_are_served_meanwhile(
    server: Server, job_id: str
) -> None:
    path = f"/v1/jobs/{job_id}"
    tag = server.ask("GET", path)[0].headers["ETag"]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {
        "Authorization": f"Bearer {server.secret}",
        "If-None-Match": tag,
        "Prefer": "wait=30",
    }
    began = time.monotonic()
    connection.request("GET", path, headers=headers)
    time.sleep(1)
    assert server.ask("GET", "/healthz")[0].status == 200
    jobs.request_cancel(server.database, job_id)
    answer = connection.getresponse()
    assert json.loads(answer.read())["state"] == "canceled"
    assert 0.9 < time.monotonic() - began < 8
    connection.close()


def test_the_document_is_openapi_3_1_and_names_every_route(server: Server) -> None:
    document = json.loads(server.ask("GET", "/openapi.json")[1])
    assert document["openapi"].startswith("3.1")
    assert {path for path in document["paths"] if path.startswith("/v1")} >= {
        "/v1/recordings",
        "/v1/recordings/{recording_id}/media",
        "/v1/uploads",
        "/v1/uploads/{upload_id}",
        "/v1/jobs",
        "/v1/jobs/{job_id}",
        "/v1/jobs/{job_id}/brief",
        "/v1/jobs/{job_id}/epochs",
        "/v1/jobs/{job_id}/frames/{sha256}.jpg",
    }
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert body["examples"]["csv"]["value"]["portfolio"].startswith("id,")
    references = re.findall('"#/components/schemas/([^"]+)"', json.dumps(document))
    assert set(references) <= set(document["components"]["schemas"])


@pytest.mark.usefixtures("job_id")
def test_generated_requests_find_the_document_true(server: Server, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG + ("" if IS_LONG else BRIEF_CONFIG))
    (tmp_path / "hooks.py").write_text(HOOKS)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("run", f"http://127.0.0.1:{server.port}/openapi.json"),
            *("-H", f"Authorization: Bearer {server.secret}"),
            *("--max-examples", str(EXAMPLES), "--phases", PHASES, "--seed", SEED),
            *("--generation-database", "none", "--no-color"),
            # What a schema cannot say, such as that a recording exists, is refused with 422.
            *("--exclude-checks", "positive_data_acceptance"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=3600 if IS_LONG else 280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-30000:] + ran.stderr[-2000:]
