"""Follows second 26 of the sample, when a slide changes, from upload to brief."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from omnai.client import Client
from omnai.commands import jobs
from pipeline.ledger import dossiers, epochs, keys
from pipeline.ledger.database import Database, connect
from pipeline.ledger.keys import Role
from pipeline.media_child import MediaChild
from pipeline.records import Dossier, FedUnit, Finding, Unit
from pipeline.settings import MediaLimits, Settings
from tests.service import await_ready, free_port, running

SECOND = 26
"""The slide "Order book" appears (scripts/make_sample.py)."""
TONE_HZ = 440
"""Sounds from 23 s to 33 s."""
GROUND_GREY = 110
"""Of that slide's background; the one before has 60."""


@dataclass(frozen=True)
class Walked:
    """What one job over HTTP, the queue and a worker left behind."""

    job: dict[str, Any]
    client: Client
    http: httpx.Client
    database: Database

    @property
    def dossier(self) -> Dossier:
        return dossiers.load(self.database, self.job["id"])

    @property
    def unit(self) -> FedUnit:
        return next(unit for unit in self.dossier.units if unit.second == SECOND)

    @property
    def finding(self) -> Finding:
        return next(
            finding
            for finding in self.dossier.findings
            if finding.origin.generated_in.start_ms == SECOND * 1000
        )

    def brief(self, form: str) -> bytes:
        return self.client.brief(self.job["id"], form)

    @property
    def cited(self) -> dict[str, Any]:
        """The finding in brief.json that was said from that second on."""
        return next(
            finding
            for finding in json.loads(self.brief("json"))["findings"]
            if finding["source"]["generated_in"]["start_ms"] == SECOND * 1000
        )


@pytest.fixture(scope="module")
def sample() -> Path:
    return Path(__file__).parents[2] / "samples" / "sample.mp4"


@pytest.fixture(scope="module")
def walked(
    module_database_url: str,
    valkey_url: str,
    sample: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Walked]:
    folder = tmp_path_factory.mktemp("walk")
    settings = Settings(
        data_dir=folder / "data",
        database_url=module_database_url,
        redis_url=valkey_url,
        host_name="walk",
        bind=f"127.0.0.1:{free_port()}",
    )
    settings.data_dir.mkdir()
    database = connect(module_database_url)
    _, secret = keys.create(database, owner="ada", role=Role.ANALYST, label="walk", expires_at=None)
    url = f"http://{settings.bind}"
    with (
        running("serve", settings, folder),
        running("worker", settings, folder),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {secret}"}) as http,
        Client(url, secret) as client,
    ):
        await_ready(http)
        job = jobs.send(
            client,
            sample,
            sample.with_name("portfolio.json"),
            {"objective": "What matters to the holdings?", "engine": "rehearsal"},
        )
        job = jobs.follow(client, job["id"])
        yield Walked(job=job, client=client, http=http, database=database)
    database.dispose()


def ffmpeg(*arguments: str | Path) -> bytes:
    """What FFmpeg's own program makes of the sample."""
    program = imageio_ffmpeg.get_ffmpeg_exe()
    return subprocess.run(
        [program, "-v", "error", *arguments], check=True, stdout=subprocess.PIPE
    ).stdout


def grey(jpeg: bytes) -> float:
    """Mean grey of the lower right corner, which every slide leaves to its background."""
    with Image.open(io.BytesIO(jpeg)) as image:
        return float(np.asarray(image.convert("L"))[-20:, -100:].mean())


def test_the_media_process_gives_the_second_its_own_sound_and_picture(sample: Path) -> None:
    with MediaChild(sample, limits=MediaLimits(), longest_edge_px=448) as media:
        units = [event for event in media if isinstance(event, Unit)]
    unit = units[SECOND]
    assert (unit.second, unit.start_ms, unit.end_ms) == (26, 26_000, 27_000)
    assert (unit.real_samples, unit.filled_samples, unit.synthetic_samples) == (16_000, 0, 0)

    heard = np.frombuffer(unit.pcm, "<f4")
    assert np.abs(np.fft.rfft(heard)).argmax() == TONE_HZ  # one bin is one hertz
    reference = ffmpeg("-i", sample, "-ac", "1", "-ar", "16000", "-f", "f32le", "-")
    expected = np.frombuffer(reference, "<f4")[SECOND * 16_000 : (SECOND + 1) * 16_000]
    assert np.abs(heard - expected).max() < 1e-3

    assert unit.frame is not None
    assert unit.frame.source_ms == 26_000
    assert (unit.frame.width_px, unit.frame.height_px) == (448, 252)
    shown = ffmpeg(
        *("-ss", str(SECOND), "-i", sample, "-frames:v", "1"),
        *("-vf", "scale=448:252:flags=area", "-f", "rawvideo", "-pix_fmt", "gray", "-"),
    )
    expected_picture = np.frombuffer(shown, np.uint8).reshape(252, 448).astype(float)
    with Image.open(io.BytesIO(unit.frame.jpeg)) as image:
        difference = np.abs(np.asarray(image.convert("L")).astype(float) - expected_picture)
    assert difference.mean() < 2


def test_the_ledger_has_the_second_as_it_was_fed(walked: Walked) -> None:
    unit = walked.unit
    assert (unit.epoch, unit.sequence, unit.start_ms, unit.end_ms) == (1, 26, 26_000, 27_000)
    assert (unit.frame_ms, unit.held_frame_ms) == (26_000, None)
    # A sine of 0.2 has an RMS of 0.2 / sqrt 2: -16.99 dB; AAC adds a little.
    assert unit.rms_dbfs == pytest.approx(-16.99, abs=0.5)
    assert unit.decision.value == "speak"


def test_the_ledger_has_the_finding_with_its_moment(walked: Walked) -> None:
    finding = walked.finding
    supplied = {holding.id for holding in walked.dossier.holdings}
    assert set(finding.holding_ids) <= supplied
    assert "the picture changed by" in finding.evidence
    assert finding.implication == "not assessed."
    assert finding.origin.first_sequence == SECOND
    assert finding.origin.available_from_ms <= 26_000


def test_the_job_ended_and_freed_its_slot(walked: Walked) -> None:
    assert (walked.job["state"], walked.job["end_reason"]) == ("succeeded", "completed")
    assert [unit.second for unit in walked.dossier.units if unit.second is not None] == list(
        range(72)
    )
    deadline = time.monotonic() + 20
    while epochs.unreleased(walked.database):
        assert time.monotonic() < deadline, "the slot is still held"
        time.sleep(0.1)


def test_the_brief_cites_the_moment_and_shows_the_slide(walked: Walked) -> None:
    source = walked.cited["source"]
    assert source["generated_in"]["start_ms"] == 26_000
    first = source["frames"][0]
    assert first["at"]["ms"] == 26_000
    answer = walked.http.get(f"/v1/jobs/{walked.job['id']}/frames/{first['sha256']}.jpg")
    assert answer.headers["Content-Type"] == "image/jpeg"
    assert hashlib.sha256(answer.content).hexdigest() == first["sha256"]
    assert grey(answer.content) == pytest.approx(GROUND_GREY, abs=4)


@pytest.mark.parametrize("form", ["md", "html"])
def test_every_form_links_to_the_moment_in_the_recording(
    walked: Walked, sample: Path, form: str
) -> None:
    media = f"/v1/recordings/{walked.job['recording_id']}/media"
    assert f"{media}#{walked.cited['source']['fragment']}" in walked.brief(form).decode()
    part = walked.http.get(media, headers={"Range": "bytes=1000-1999"})
    assert part.status_code == 206
    assert part.content == sample.read_bytes()[1000:2000]


def test_the_brief_says_that_a_rehearsal_understands_nothing(walked: Walked) -> None:
    for form in ("md", "html"):
        assert "understands nothing" in walked.brief(form).decode()


def test_the_briefs_digest_is_that_of_its_json_without_the_digest(walked: Walked) -> None:
    document = json.loads(walked.brief("json"))
    said = document.pop("sha256")
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(canonical).hexdigest() == said
    for form in ("md", "html"):
        assert said in walked.brief(form).decode()
