"""Follows second 26 of the sample, when a slide changes, from file to brief."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from pipeline.ledger import briefs, dossiers
from pipeline.ledger.database import Database, connect
from pipeline.media_child import MediaChild
from pipeline.records import Dossier, FedUnit, Finding, JobState, Unit
from pipeline.settings import MediaLimits

SECOND = 26
"""The slide "Order book" appears (scripts/make_sample.py)."""
TONE_HZ = 440
"""Sounds from 23 s to 33 s."""
GROUND_GREY = 110
"""Of that slide's background; the one before has 60."""


@dataclass(frozen=True)
class Walked:
    """What one run of the command left behind."""

    said: dict[str, Any]
    out: Path
    database: Database

    @property
    def dossier(self) -> Dossier:
        return dossiers.load(self.database, self.said["job_id"])

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

    @property
    def cited(self) -> dict[str, Any]:
        """The finding in brief.json that was said from that second on."""
        brief = json.loads((self.out / "brief.json").read_bytes())
        return next(
            finding
            for finding in brief["findings"]
            if finding["source"]["generated_in"]["start_ms"] == SECOND * 1000
        )


@pytest.fixture(scope="module")
def sample() -> Path:
    return Path(__file__).parents[2] / "samples" / "sample.mp4"


@pytest.fixture(scope="module")
def walked(
    module_database_url: str, sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Walked]:
    folder = tmp_path_factory.mktemp("walk")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "omnai", "analyze", str(sample), "--json"),
            *("--portfolio", str(sample.with_name("portfolio.json"))),
            *("--objective", "What matters to the holdings?"),
            *("--out", str(folder / "out")),
        ],
        env=os.environ
        | {"OMNAI_DATABASE_URL": module_database_url, "OMNAI_DATA_DIR": str(folder / "data")},
        cwd=sample.parents[1],
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    database = connect(module_database_url)
    yield Walked(said=json.loads(ran.stdout), out=folder / "out", database=database)
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
    assert walked.dossier.state is JobState.SUCCEEDED
    assert [unit.second for unit in walked.dossier.units if unit.second is not None] == list(
        range(72)
    )
    stored = briefs.latest(walked.database, walked.said["job_id"])
    assert stored is not None
    assert stored.document == (walked.out / "brief.json").read_bytes()


def test_the_brief_cites_the_moment_and_shows_the_slide(walked: Walked) -> None:
    source = walked.cited["source"]
    assert source["generated_in"]["start_ms"] == 26_000
    first = source["frames"][0]
    assert first["at"]["ms"] == 26_000
    jpeg = (walked.out / "frames" / f"{first['sha256']}.jpg").read_bytes()
    assert hashlib.sha256(jpeg).hexdigest() == first["sha256"]
    assert grey(jpeg) == pytest.approx(GROUND_GREY, abs=4)


@pytest.mark.parametrize("name", ["brief.md", "brief.html"])
def test_every_form_links_to_the_moment_in_the_recording(
    walked: Walked, sample: Path, name: str
) -> None:
    text = (walked.out / name).read_text()
    link = f"sample.mp4#{walked.cited['source']['fragment']}"
    assert link in text
    relative = text[: text.index(link)].split('"')[-1].split("(")[-1]
    assert (walked.out / relative / "sample.mp4").resolve() == sample.resolve()
    assert walked.said["sha256"] in text


def test_the_brief_says_that_a_rehearsal_understands_nothing(walked: Walked) -> None:
    for name in ("brief.md", "brief.html"):
        assert "understands nothing" in (walked.out / name).read_text()


def test_the_briefs_digest_is_that_of_its_json_without_the_digest(walked: Walked) -> None:
    document = json.loads((walked.out / "brief.json").read_bytes())
    said = document.pop("sha256")
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(canonical).hexdigest() == said == walked.said["sha256"]
