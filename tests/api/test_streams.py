"""Streams that the analyst chooses, from the submission to the brief."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import dossiers
from pipeline.ledger.database import Database
from tests.api.conftest import Person, codes, work
from tests.clips import run_ffmpeg


@pytest.fixture
def two_sounds(ada: Person, tmp_path: Path) -> str:
    """A recording of a picture (0) and two sounds (1 and 2), of which 1 is the default."""
    path = tmp_path / "two.mp4"
    run_ffmpeg(
        *("-f", "lavfi", "-i", "color=gray:s=64x48:r=5:d=2"),
        *("-f", "lavfi", "-i", "sine=400:d=2", "-f", "lavfi", "-i", "anullsrc=d=2"),
        *("-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-pix_fmt", "yuv420p"),
        *("-preset", "ultrafast", "-c:a", "aac", str(path)),
    )
    return str(ada.upload(path.read_bytes(), "two.mp4").get_json()["id"])


def chosen(streams: list[dict[str, Any]]) -> dict[int, str]:
    return {found["index"]: found["reason"] for found in streams if found["is_chosen"]}


def test_another_sound_is_fed_and_only_that_jobs_brief_says_so(
    app: Flask, ada: Person, database: Database, two_sounds: str
) -> None:
    default = ada.submit(two_sounds, options={"audio_stream": None})
    other = ada.submit(two_sounds, options={"audio_stream": 2})
    assert (default.status_code, other.status_code) == (202, 202)
    for _ in range(2):
        assert work(app, RehearsalEngine())

    told = {}
    for name, answer in (("default", default), ("other", other)):
        job_id = answer.get_json()["id"]
        told[name] = ada.get(f"/v1/jobs/{job_id}/brief").get_json()["provenance"]
        levels = [unit.rms_dbfs for unit in dossiers.load(database, job_id).units]
        assert all(level is None or level < -80 for level in levels) == (name == "other")
    assert chosen(told["default"]["container"]["streams"])[1] == "marked as default"
    assert chosen(told["other"]["container"]["streams"]) == {
        0: "the only video stream",
        2: "chosen by the caller",
    }
    options = {option["name"]: option["value"] for option in told["other"]["options"]}
    assert (options["audio_stream"], options["video_stream"]) == (2, None)
    # The recording is everybody's, and stays as it was found.
    probe = ada.get(f"/v1/recordings/{two_sounds}").get_json()["probe"]
    assert 1 in chosen(probe["streams"])
    assert [s["index"] for s in probe["streams"] if s["is_usable"]] == [0, 1, 2]


def test_a_stream_that_the_recording_does_not_have_is_refused_at_its_place(
    ada: Person, two_sounds: str
) -> None:
    answer = ada.submit(two_sounds, options={"audio_stream": 0, "video_stream": 7})
    assert answer.status_code == 422
    assert codes(answer) == {
        "/options/audio_stream": "stream_unknown",
        "/options/video_stream": "stream_unknown",
    }
    assert "1 (aac), 2 (aac) or null" in answer.text


def test_a_first_second_past_the_end_is_refused_at_once(ada: Person, two_sounds: str) -> None:
    answer = ada.submit(two_sounds, options={"start_s": 4000})
    assert answer.status_code == 422
    assert codes(answer) == {"/options/start_s": "start_past_end"}


def test_the_document_describes_them(ada: Person) -> None:
    document = ada.get("/openapi.json").get_json()
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    described = body["schema"]["properties"]["options"]["properties"]["audio_stream"]
    assert described["type"] == ["integer", "null"]
    assert "null leaves the choice" in described["description"]
