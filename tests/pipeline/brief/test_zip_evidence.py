"""The evidence ZIP: it opens offline, its links lead somewhere, its bytes are always the same."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.brief.document import Brief
from pipeline.brief.evidence_zip import RECORDING_BYTES_MAX, KeptRecording, write_zip
from pipeline.brief.render_json import sha256, to_json
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.hostile_table import frame_bytes

FRAME = make.frame().sha256
RECORDING = b"every bit of it" * 1000


def archive(brief: Brief, recording: Path) -> bytes:
    kept = None
    if recording.exists():
        kept = KeptRecording(
            size_bytes=recording.stat().st_size, read=lambda: iter([recording.read_bytes()])
        )
    stream = io.BytesIO()
    write_zip(brief, stream, frames=(FRAME,), frame_bytes=frame_bytes, recording=kept)
    return stream.getvalue()


def opened(content: bytes) -> tuple[zipfile.ZipFile, dict[str, Any]]:
    read = zipfile.ZipFile(io.BytesIO(content))
    return read, json.loads(read.read("manifest.json"))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blobs") / "blob"
    path.write_bytes(RECORDING)
    return path


@pytest.fixture(scope="module")
def whole(recording: Path) -> bytes:
    return archive(make.assemble(make.full()), recording)


def test_it_holds_every_form_the_frames_and_the_recording(whole: bytes) -> None:
    read, _ = opened(whole)
    assert read.namelist() == [
        "README.txt",
        "brief.html",
        "brief.pdf",
        "brief.docx",
        "brief.md",
        "brief.json",
        "findings.csv",
        "findings.xlsx",
        "recording.vtt",
        "recording.srt",
        f"frames/{FRAME}.jpg",
        "recording.mp4",
        "manifest.json",
    ]
    assert read.read("recording.mp4") == RECORDING
    assert read.read(f"frames/{FRAME}.jpg") == frame_bytes(FRAME)
    assert read.read("brief.json") == to_json(make.assemble(make.full()))


def test_the_manifest_has_every_other_file_with_its_own_digest(whole: bytes) -> None:
    read, manifest = opened(whole)
    listed = {file["name"]: (file["size_bytes"], file["sha256"]) for file in manifest["files"]}
    found = {
        name: (len(read.read(name)), hashlib.sha256(read.read(name)).hexdigest())
        for name in read.namelist()
        if name != "manifest.json"
    }
    assert listed == found
    assert manifest["brief"]["sha256"] == sha256(make.assemble(make.full()))
    assert manifest["recording"]["state"] == "included"


def addresses(read: zipfile.ZipFile) -> set[str]:
    html = read.read("brief.html").decode()
    markdown = read.read("brief.md").decode()
    pdf = read.read("brief.pdf").decode("latin-1")
    with zipfile.ZipFile(io.BytesIO(read.read("brief.docx"))) as package:
        relations = package.read("word/_rels/document.xml.rels").decode()
    found = {
        *re.findall(r'(?:href|src)="(?!data:)([^"]*)"', html),
        *re.findall(r"\]\(([^)]*)\)", markdown),
        *re.findall(r"/URI\s*\(([^)]*)\)", pdf),
        *re.findall(r'Target="([^"]*)"[^>]*TargetMode="External"', relations),
    }
    return {address for address in found if not address.startswith("#")}


def test_every_link_of_every_form_leads_into_the_archive(whole: bytes) -> None:
    read, _ = opened(whole)
    found = addresses(read)
    assert {address.partition("#")[0] for address in found} <= set(read.namelist())
    assert "recording.mp4#t=3,9" in found
    assert f"frames/{FRAME}.jpg" in found


def test_without_the_recording_times_are_text_and_the_manifest_says_why(tmp_path: Path) -> None:
    too_large = tmp_path / "blob"
    with too_large.open("wb") as file:
        file.truncate(RECORDING_BYTES_MAX + 1)
    for path, state in ((tmp_path / "gone", "not_kept"), (too_large, "too_large")):
        read, manifest = opened(archive(make.assemble(make.full()), path))
        assert manifest["recording"]["state"] == state
        assert manifest["recording"]["name"] is None
        assert not [name for name in read.namelist() if name == "recording.mp4"]
        assert not [address for address in addresses(read) if "#t=" in address]
        assert "#t=3,9" in read.read("brief.html").decode()


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("../../etc/cron.d/x.mp4", "recording.mp4"),
        ("C:\\x\\y.WEBM", "recording.webm"),
        ("call.mp4/../../x", "recording.media"),
        ("setup.exe", "recording.media"),
        ("x.mp4\u202e", "recording.media"),
        ("", "recording.media"),
    ],
)
def test_no_name_that_others_gave_becomes_a_path(recording: Path, filename: str, name: str) -> None:
    from pipeline.brief.evidence_zip import recording_name

    brief = make.assemble(make.full())
    brief = replace(brief, header=replace(brief.header, filename=filename))
    assert recording_name(brief) == name


AGAIN = """
import hashlib, sys
from pathlib import Path
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.test_zip_evidence import archive
content = archive(make.assemble(make.full()), Path(sys.argv[1]))
print(hashlib.sha256(content).hexdigest())
"""


def test_another_process_elsewhere_at_another_time_writes_the_same_bytes(
    whole: bytes, recording: Path, repository: Path
) -> None:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "4321",
        "TZ": "Asia/Kolkata",
        "LC_ALL": "C",
        "LANG": "tr_TR.UTF-8",
        "SOURCE_DATE_EPOCH": "1",
    }
    made = subprocess.run(
        [sys.executable, "-c", AGAIN, str(recording)],
        env=environment,
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == hashlib.sha256(whole).hexdigest()
