"""A recording's bytes from a bucket, handed on as they come."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.settings import Settings
from tests.api.conftest import Person, work
from tests.bucket import Faults, breaking, client, made_bucket


@pytest.fixture
def between(s3_url: str) -> Iterator[tuple[str, Faults]]:
    with breaking(s3_url) as found:
        yield found


@pytest.fixture
def bucket(s3_url: str) -> str:
    return made_bucket(s3_url)


@pytest.fixture
def settings(settings: Settings, bucket: str, between: tuple[str, Faults]) -> Settings:
    return dataclasses.replace(settings, blobs=f"s3://{bucket}/kept", s3_endpoint=between[0])


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_player_gets_the_ranges_it_asks_for_and_no_more_is_read(
    ada: Person,
    recording_id: str,
    sample_bytes: bytes,
    settings: Settings,
    between: tuple[str, Faults],
) -> None:
    path = f"/v1/recordings/{recording_id}/media"
    size = len(sample_bytes)
    assert files(settings.data_dir / "blobs") == []

    whole = ada.get(path)
    assert (whole.status_code, whole.data) == (200, sample_bytes)
    assert whole.content_type == "video/mp4"
    assert whole.content_length == size
    tag = whole.headers["ETag"]

    _, faults = between
    for wanted, first, last in (("0-0", 0, 0), ("-10", size - 10, size - 1), ("5-", 5, size - 1)):
        faults.asked.clear()
        answer = ada.get(path, headers={"Range": f"bytes={wanted}", "If-Range": tag})
        assert (answer.status_code, answer.data) == (206, sample_bytes[first : last + 1])
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{size}"
        (asked,) = faults.asked
        assert asked.startswith("GET ")
        assert asked.endswith(f" bytes={first}-{last}")

    stale = ada.get(path, headers={"Range": "bytes=0-9", "If-Range": '"other"'})
    assert (stale.status_code, stale.data) == (200, sample_bytes)
    faults.asked.clear()
    assert ada.get(path, headers={"Range": f"bytes={size}-"}).status_code == 416
    assert ada.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert faults.asked == []  # neither needs a byte
    head = ada.head(path)
    assert (head.status_code, head.data, head.content_length) == (200, b"", size)
    assert [asked.split()[0] for asked in faults.asked] == ["HEAD"]


def test_a_recording_that_is_gone_and_a_storage_that_is_away_are_told_apart(
    ada: Person,
    job_id: str,
    recording_id: str,
    bucket: str,
    s3_url: str,
    sample_bytes: bytes,
    between: tuple[str, Faults],
) -> None:
    path = f"/v1/recordings/{recording_id}/media"
    outside = client(s3_url)
    (kept,) = outside.list_objects_v2(Bucket=bucket)["Contents"]
    outside.delete_object(Bucket=bucket, Key=kept["Key"])
    for answer in (ada.get(path), ada.get(path, headers={"Range": "bytes=0-9"})):
        assert (answer.status_code, answer.get_json()["code"]) == (404, "blob_missing")
    assert ada.head(path).status_code == 404

    outside.delete_bucket(Bucket=bucket)
    for answer in (ada.get(path), ada.upload(sample_bytes, "other.mp4")):
        assert (answer.status_code, answer.get_json()["code"]) == (503, "blobs_unavailable")
        assert answer.headers["Retry-After"]
        assert bucket not in answer.text
    assert ada.get(f"/v1/jobs/{job_id}/brief").status_code == 200


def test_the_brief_of_a_job_shows_the_frames_and_packs_the_recording_that_lie_there(
    app: Flask,
    ada: Person,
    job_id: str,
    settings: Settings,
    sample_bytes: bytes,
    bucket: str,
    s3_url: str,
) -> None:
    assert work(app, RehearsalEngine())
    brief = ada.get(f"/v1/jobs/{job_id}/brief").get_json()
    assert brief["status"]["kind"] == "complete"
    shown = brief["findings"][0]["source"]["frames"][0]["sha256"]
    assert ada.get(f"/v1/jobs/{job_id}/frames/{shown}.jpg").data[:2] == b"\xff\xd8"
    archive = ada.get(f"/v1/jobs/{job_id}/brief", query_string={"format": "zip"})
    assert sample_bytes in archive.data
    assert files(settings.data_dir / "blobs") == []
    assert not (settings.data_dir / "frames").exists()
    keys = [found["Key"] for found in client(s3_url).list_objects_v2(Bucket=bucket)["Contents"]]
    assert f"kept/frames/{shown[:2]}/{shown}.jpg" in keys
