"""What a whole file goes through: not given up while it goes on, and dropped when it is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline import intake
from pipeline.errors import RecordingRefused, UploadTooLarge
from pipeline.intake import Received
from pipeline.ledger import uploads
from pipeline.ledger.blobs import BlobStore, FolderBlobs
from pipeline.ledger.database import Database, connect
from pipeline.records import Probe
from pipeline.settings import MediaLimits
from tests.pipeline.ledger.factories import make_probe, rows

PAST = timedelta(hours=-1)

LEFT_H = """
    SELECT extract(epoch FROM expires_at - now()) / 3600 FROM uploads WHERE closed_at IS NULL
"""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = connect(database_url)
    yield made
    made.dispose()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return FolderBlobs(tmp_path / "blobs")


def left_h(database: Database) -> float:
    ((hours,),) = rows(database, LEFT_H)
    return float(hours)


def received(database: Database, blobs: BlobStore, chunks: Iterator[bytes]) -> Received:
    return intake.receive(
        database, blobs, chunks, owner="ana", filename="a.mp4", bytes_max=1_000_000
    )


def test_a_file_is_not_given_up_while_its_bytes_come_or_while_it_is_probed(
    database: Database, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "RENEW_S", 0.0)

    def chunks() -> Iterator[bytes]:
        assert 0.9 < left_h(database) <= 1  # what a killed process leaves goes soon
        ((upload_id,),) = rows(database, "SELECT id::text FROM uploads")
        uploads.renew(database, upload_id, lifetime=PAST)
        yield b"abc"
        assert 0.9 < left_h(database) <= 1
        yield b"def"

    whole = received(database, blobs, chunks())
    assert (whole.sha256, whole.size_bytes) == (hashlib.sha256(b"abcdef").hexdigest(), 6)
    uploads.renew(database, whole.upload_id, lifetime=PAST)

    def look(path: Path, limits: MediaLimits) -> Probe:
        assert left_h(database) > 23
        assert intake.sweep(database, blobs) == 0
        return make_probe()

    monkeypatch.setattr(intake, "_probe", look)
    recording = intake.keep(database, blobs, whole, limits=MediaLimits())
    assert recording.sha256 == whole.sha256
    assert blobs.under_way() == ()


def test_what_is_too_large_or_refused_leaves_no_file_and_no_open_row(
    database: Database, blobs: BlobStore
) -> None:
    with pytest.raises(UploadTooLarge, match="at most 1000000"):
        received(database, blobs, iter([b"x" * 600_000] * 2))
    text = received(database, blobs, iter([b"id,name\n" * 100]))
    with pytest.raises(RecordingRefused):
        intake.keep(database, blobs, text, limits=MediaLimits())
    assert blobs.under_way() == ()
    assert rows(database, "SELECT count(*) FROM uploads WHERE closed_at IS NULL") == [(0,)]
