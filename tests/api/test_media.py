"""The recording's bytes by range, checked against the file itself."""

from __future__ import annotations

import dataclasses

import pytest

from api.media import media_type
from pipeline.ledger import audit
from pipeline.ledger.database import Database
from pipeline.ledger.recordings import Recording
from pipeline.records import MediaStream, Probe
from tests.api.conftest import Person


@pytest.fixture
def path(recording_id: str) -> str:
    return f"/v1/recordings/{recording_id}/media"


def test_the_whole_file_comes_with_its_type_and_name(
    ada: Person, path: str, sample_bytes: bytes
) -> None:
    answer = ada.get(path)
    assert (answer.status_code, answer.data) == (200, sample_bytes)
    assert answer.content_type == "video/mp4"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"] == "inline; filename=call.mp4"
    head = ada.head(path)
    assert (head.status_code, head.data) == (200, b"")
    assert head.content_length == len(sample_bytes)


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=100-199", 100, 199), ("bytes=-10", -10, -1), ("bytes=5-", 5, -1)],
)
def test_one_range_is_answered_in_part(
    ada: Person, path: str, sample_bytes: bytes, wanted: str, first: int, last: int
) -> None:
    size = len(sample_bytes)
    first, last = first % size, last % size
    answer = ada.get(path, headers={"Range": wanted})
    assert answer.status_code == 206
    assert answer.data == sample_bytes[first : last + 1]
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{size}"


def test_a_range_behind_the_end_is_refused_with_the_length(
    ada: Person, path: str, sample_bytes: bytes
) -> None:
    answer = ada.get(path, headers={"Range": f"bytes={len(sample_bytes)}-"})
    assert answer.status_code == 416
    assert answer.headers["Content-Range"] == f"bytes */{len(sample_bytes)}"
    assert answer.get_json()["code"] == "range_refused"


@pytest.mark.parametrize("wanted", ["bytes=0-1,5-6", "lines=1-2", "nonsense", "bytes=9-1"])
def test_other_ranges_are_answered_with_the_whole(
    ada: Person, path: str, sample_bytes: bytes, wanted: str
) -> None:
    answer = ada.get(path, headers={"Range": wanted})
    assert (answer.status_code, answer.data) == (200, sample_bytes)


def test_a_range_counts_only_while_its_version_fits(ada: Person, path: str) -> None:
    tag = ada.get(path).headers["ETag"]
    fitting = ada.get(path, headers={"Range": "bytes=0-9", "If-Range": tag})
    stale = ada.get(path, headers={"Range": "bytes=0-9", "If-Range": '"other"'})
    assert (fitting.status_code, stale.status_code) == (206, 200)
    assert ada.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_fetching_in_pieces_is_written_down_once(
    ada: Person, admin: Person, path: str, recording_id: str, database: Database
) -> None:
    for start in range(3):
        ada.get(path, headers={"Range": f"bytes={start}-9"})
    admin.get(path)
    entries = audit.listed(database, limit=50)
    fetched = [entry.actor for entry in entries if entry.action == "recording_fetched"]
    assert sorted(fetched) == sorted([ada.key_id, admin.key_id])
    assert {entry.subject for entry in entries} == {recording_id}


def _recording(name: str, demuxer: str, *, has_picture: bool) -> Recording:
    stream = MediaStream(index=0, kind="video", codec="x", is_chosen=has_picture, reason="")
    probe = Probe(
        format=demuxer,
        size_bytes=1,
        origin_ms=0,
        declared_duration_ms=None,
        packet_end_ms=None,
        streams=(stream,),
    )
    base = {field.name: None for field in dataclasses.fields(Recording)}
    return Recording(**(base | {"filename": name, "probe": probe}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "demuxer", "has_picture", "expected"),
    [
        ("a.mov", "mov,mp4,m4a,3gp,3g2,mj2", True, "video/quicktime"),
        ("a.m4a", "mov,mp4,m4a,3gp,3g2,mj2", False, "audio/mp4"),
        ("a.html", "mov,mp4,m4a,3gp,3g2,mj2", True, "video/mp4"),
        ("a.webm", "matroska,webm", True, "video/webm"),
        ("a.mkv", "matroska,webm", True, "video/x-matroska"),
        ("a.mp3", "mp3", False, "audio/mpeg"),
        ("a.svg", "unheard_of", True, "application/octet-stream"),
    ],
)
def test_the_type_follows_the_content_and_is_never_one_that_runs(
    name: str, demuxer: str, has_picture: bool, expected: str
) -> None:
    assert media_type(_recording(name, demuxer, has_picture=has_picture)) == expected
