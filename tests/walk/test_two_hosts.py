"""An API on one host and workers on two others, which share a database, a queue and a bucket."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx

from omnai.client import Client
from omnai.commands import jobs
from pipeline.ledger import dossiers, keys
from pipeline.ledger.database import connect
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.bucket import made_bucket
from tests.hosts import until
from tests.pipeline.ledger.factories import rows
from tests.service import await_ready, free_port, running

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"

JOBS = 5
SAMPLE_S = 72
UNITS = 15
"""Source seconds that all but the first job see."""


def test_what_one_host_stores_the_others_read_and_each_job_runs_once(
    database_url: str, valkey_url: str, s3_url: str, tmp_path: Path
) -> None:
    bind = f"127.0.0.1:{free_port()}"
    api = Settings(
        data_dir=tmp_path / "one" / "data",
        database_url=database_url,
        redis_url=valkey_url,
        host_name="one",
        bind=bind,
        blobs=f"s3://{made_bucket(s3_url)}",
        s3_endpoint=s3_url,
    )
    workers = [
        replace(api, data_dir=tmp_path / name / "data", host_name=name) for name in ("two", "three")
    ]
    for settings in (api, *workers):
        settings.data_dir.mkdir(parents=True)
    database = connect(database_url)
    _, secret = keys.create(database, owner="ada", role=Role.ANALYST, label="walk", expires_at=None)
    url = f"http://{bind}"
    headers = {"Authorization": f"Bearer {secret}"}
    with ExitStack() as opened:
        opened.callback(database.dispose)
        opened.enter_context(running("serve", api, api.data_dir.parent))
        for settings in workers:
            opened.enter_context(running("worker", settings, settings.data_dir.parent))
        http = opened.enter_context(httpx.Client(base_url=url, headers=headers))
        client = opened.enter_context(Client(url, secret))
        await_ready(http)
        until(lambda: http.get("/readyz").json()["workers_ready"] == len(workers), within_s=60)
        asked = {"objective": "What matters?", "engine": "rehearsal", "options": {"start_s": 20}}
        first = jobs.send(client, SAMPLE, SAMPLE.with_name("portfolio.json"), asked)
        holdings = json.loads(SAMPLE.with_name("portfolio.json").read_text())
        again = asked | {"recording_id": first["recording_id"], "portfolio": holdings}
        again |= {"options": {"start_s": SAMPLE_S - UNITS}}
        sent = [first, *(client.submit(again) for _ in range(JOBS - 1))]
        for job in sent:
            ended = jobs.follow(client, job["id"])
            assert (ended["state"], ended["end_reason"]) == ("succeeded", "completed")
            [epoch] = dossiers.load(database, job["id"]).epochs
            assert epoch.number == 1
        brief = json.loads(client.brief(first["id"], "json"))
        frame = brief["findings"][0]["source"]["frames"][0]["sha256"]
        shown = http.get(f"/v1/jobs/{first['id']}/frames/{frame}.jpg")
        assert shown.content[:2] == b"\xff\xd8"
        part = http.get(
            f"/v1/recordings/{first['recording_id']}/media", headers={"Range": "bytes=1000-1999"}
        )
        assert (part.status_code, part.content) == (206, SAMPLE.read_bytes()[1000:2000])
        ran = rows(
            database,
            "SELECT job_id::text, host, slot,"
            " (SELECT count(*) FROM units WHERE units.job_id = epochs.job_id AND drain IS NULL)"
            " FROM epochs",
        )
        overlaps = rows(
            database,
            "SELECT one.job_id FROM epochs AS one JOIN epochs AS other"
            " ON one.slot = other.slot AND one.job_id < other.job_id"
            " AND one.started_at < other.released_at AND other.started_at < one.released_at",
        )
    assert sorted(job_id for job_id, *_ in ran) == sorted(job["id"] for job in sent)
    assert {(host, slot) for _, host, slot, _ in ran} == {("two", "two/0"), ("three", "three/0")}
    assert [units for job_id, *_, units in ran if job_id != first["id"]] == [UNITS] * (JOBS - 1)
    assert overlaps == []
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "blobs" in path.parts]
    assert left == []
    for log in tmp_path.rglob("*.log"):
        assert "test-secret-key" not in log.read_text()
