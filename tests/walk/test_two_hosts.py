"""An API on one host and a worker on another, which share a database, a queue and a bucket."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import httpx

from omnai.client import Client
from omnai.commands import jobs
from pipeline.ledger import keys
from pipeline.ledger.database import connect
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.bucket import made_bucket
from tests.service import await_ready, free_port, running

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"


def test_what_one_host_stores_the_other_reads(
    database_url: str, valkey_url: str, s3_url: str, tmp_path: Path
) -> None:
    bind = f"127.0.0.1:{free_port()}"
    api = Settings(
        data_dir=tmp_path / "api",
        database_url=database_url,
        redis_url=valkey_url,
        host_name="one",
        bind=bind,
        blobs=f"s3://{made_bucket(s3_url)}",
        s3_endpoint=s3_url,
    )
    worker = replace(api, data_dir=tmp_path / "worker", host_name="two")
    for settings in (api, worker):
        settings.data_dir.mkdir()
    database = connect(database_url)
    _, secret = keys.create(database, owner="ada", role=Role.ANALYST, label="walk", expires_at=None)
    database.dispose()
    url = f"http://{bind}"
    headers = {"Authorization": f"Bearer {secret}"}
    with (
        running("serve", api, tmp_path),
        running("worker", worker, tmp_path),
        httpx.Client(base_url=url, headers=headers) as http,
        Client(url, secret) as client,
    ):
        await_ready(http)
        asked = {"objective": "What matters?", "engine": "rehearsal", "options": {"start_s": 20}}
        job = jobs.send(client, SAMPLE, SAMPLE.with_name("portfolio.json"), asked)
        job = jobs.follow(client, job["id"])
        assert (job["state"], job["end_reason"]) == ("succeeded", "completed")
        brief = json.loads(client.brief(job["id"], "json"))
        frame = brief["findings"][0]["source"]["frames"][0]["sha256"]
        shown = http.get(f"/v1/jobs/{job['id']}/frames/{frame}.jpg")
        assert shown.content[:2] == b"\xff\xd8"
        part = http.get(
            f"/v1/recordings/{job['recording_id']}/media", headers={"Range": "bytes=1000-1999"}
        )
        assert (part.status_code, part.content) == (206, SAMPLE.read_bytes()[1000:2000])
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "blobs" in path.parts]
    assert left == []
    for log in ("serve.log", "worker.log"):
        assert "test-secret-key" not in (tmp_path / log).read_text()
