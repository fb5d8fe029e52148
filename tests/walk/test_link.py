"""Follows a job that names a link: a real server, ingest process, worker and API."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.ledger import keys
from pipeline.ledger.database import connect
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.pipeline.ledger.factories import rows
from tests.service import await_ready, free_port, running
from tests.worker.ingest.__main__ import WORLD
from tests.worker.ingest.servers import Answer, Asked, World, file_of, head, opened_world, whole

SAMPLES = Path(__file__).parents[2] / "samples"
SAMPLE = (SAMPLES / "sample.mp4").read_bytes()
HOLDINGS = json.loads((SAMPLES / "portfolio.json").read_text())
SECRETS = ("hush", "private")
"""Of every link: its query, and its path before the file's name."""

HALF = len(SAMPLE) // 2


@dataclass
class Walk:
    """The service, its servers, and what the ingest process is started with."""

    http: httpx.Client
    world: World
    settings: Settings
    folder: Path
    environment: dict[str, str]

    def submit(self, path: str) -> dict[str, Any]:
        answer = self.http.post(
            "/v1/jobs",
            json={
                "source_url": f"https://media.test/private/{path}?token=hush",
                "portfolio": HOLDINGS,
                "objective": "What matters to the holdings?",
                "engine": "rehearsal",
                "options": {"start_s": 25},
            },
        )
        assert answer.status_code == 202, answer.text
        return self.seen(answer)

    def job(self, job_id: str) -> dict[str, Any]:
        return self.seen(self.http.get(f"/v1/jobs/{job_id}"))

    def seen(self, answer: httpx.Response) -> dict[str, Any]:
        for secret in SECRETS:
            assert secret not in answer.text
        found: dict[str, Any] = answer.json()
        return found

    def until(self, job_id: str, what: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            job = self.job(job_id)
            if what(job):
                return job
            time.sleep(0.1)
        raise AssertionError(f"{job}\n{self.said()}")

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def incoming(self) -> list[Path]:
        return list((self.settings.data_dir / "blobs" / "incoming").glob("*"))

    @contextmanager
    def ingest(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "ingest.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.ingest"],
                env=os.environ | self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@pytest.fixture(scope="module")
def walk(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("link")
    settings = Settings(
        data_dir=folder / "data",
        database_url=module_database_url,
        redis_url=valkey_url,
        host_name="link",
        bind=f"127.0.0.1:{free_port()}",
        fetch_urls=True,
    )
    settings.data_dir.mkdir()
    database = connect(module_database_url)
    _, secret = keys.create(database, owner="ada", role=Role.ANALYST, label="", expires_at=None)
    database.dispose()
    with opened_world() as world:
        server = world.serve(_library(lambda: world))
        world.authority.cert_pem.write_to_path(str(folder / "authority.pem"))
        facts = {"authority": str(folder / "authority.pem"), "port": server.port, "lease_s": 2.0}
        with (
            running("serve", settings, folder),
            running("worker", settings, folder),
            httpx.Client(
                base_url=f"http://{settings.bind}", headers={"Authorization": f"Bearer {secret}"}
            ) as http,
        ):
            await_ready(http)
            yield Walk(
                http=http,
                world=world,
                settings=settings,
                folder=folder,
                environment=settings.to_environment() | {WORLD: json.dumps(facts)},
            )


def _library(world: Callable[[], World]) -> Answer:
    """What the server has, by the file's name."""

    def answer(asked: Asked) -> Iterator[bytes]:
        name = asked.target.partition("?")[0].rpartition("/")[2]
        rest_of = file_of(SAMPLE, ETag='"v1"')
        if name == "page.mp4":
            yield whole(b"<!doctype html><title>hush</title>", Content_Type="text/html")
        elif name == "inward.mp4":
            yield head(302, Location="https://inner.example/private?token=hush")
        elif name == "moved.mp4":
            yield head(307, Location="/private/call.mp4?token=hush")
        elif name == "slow.mp4" and "range" not in asked.headers:
            yield head(Content_Length=len(SAMPLE), ETag='"v1"') + SAMPLE[:HALF]
            for byte in SAMPLE[HALF:]:
                world().servers[0].pause(0.1)
                yield bytes([byte])
        else:
            yield from rest_of(asked)

    return answer


def test_a_link_goes_from_waiting_to_a_brief(walk: Walk) -> None:
    job = walk.submit("moved.mp4")
    assert (job["state"], job["filename"]) == ("waiting_for_recording", "moved.mp4")
    assert job["fetch"]["host"] == "media.test"
    assert job["links"]["recording"] is None
    with walk.ingest():
        job = walk.until(job["id"], lambda job: job["end_reason"])
    assert (job["state"], job["end_reason"]) == ("succeeded", "completed"), walk.said()
    times = job["times"]
    order = ["waiting_for_recording", "queued", "running", "finalizing", "succeeded"]
    assert [times[state] for state in order] == sorted(times.values())
    recording = walk.seen(walk.http.get(job["links"]["recording"]))
    assert recording["sha256"] == hashlib.sha256(SAMPLE).hexdigest()
    brief = walk.seen(walk.http.get(job["links"]["brief"], params={"format": "json"}))
    assert recording["sha256"] in json.dumps(brief)
    assert brief["findings"]
    assert job["fetch"]["received_bytes"] == job["fetch"]["total_bytes"] == len(SAMPLE)
    assert walk.incoming() == []


def test_what_is_refused_fails_the_job_and_says_what_to_do(walk: Walk) -> None:
    page, inward = walk.submit("page.mp4"), walk.submit("inward.mp4")
    with walk.ingest():
        page = walk.until(page["id"], lambda job: job["end_reason"])
        inward = walk.until(inward["id"], lambda job: job["end_reason"])
    assert (page["state"], page["end_reason"]) == ("failed", "link_refused")
    assert "web page" in page["end_detail"]
    assert (inward["state"], inward["end_reason"]) == ("failed", "link_refused")
    assert "public internet" in inward["end_detail"]
    assert walk.seen(walk.http.get(page["links"]["brief"]))["state"] == "failed"


def test_a_killed_process_is_gone_on_from_by_the_next_one(walk: Walk) -> None:
    job = walk.submit("slow.mp4")
    with walk.ingest() as process:
        job = walk.until(job["id"], lambda job: job["fetch"]["received_bytes"])
        assert HALF <= job["fetch"]["received_bytes"] < len(SAMPLE)
        process.kill()
        process.wait()
        assert len(walk.incoming()) == 1
    with walk.ingest() as process:
        job = walk.until(job["id"], lambda job: job["end_reason"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert job["state"] == "succeeded", walk.said()
    asked = [one for one in walk.world.servers[0].asked if "slow.mp4" in one.target]
    first, last = asked[0], asked[-1]
    assert "range" not in first.headers
    assert int(last.headers["range"].removeprefix("bytes=").rstrip("-")) >= HALF
    assert walk.incoming() == []


def test_no_process_wrote_a_link_down(walk: Walk) -> None:
    said = walk.said()
    assert "A recording was fetched." in said
    for secret in (*SECRETS, "media.test", "10.0.0.1"):
        assert secret not in said
    database = connect(str(walk.settings.database_url))
    for (name,) in rows(
        database,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
    ):
        for (row,) in rows(database, f'SELECT to_jsonb(t)::text FROM "{name}" AS t'):
            for secret in SECRETS:
                assert secret not in row, name
    database.dispose()
