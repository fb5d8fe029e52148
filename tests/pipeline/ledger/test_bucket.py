"""A bucket whose service breaks: nothing is taken for whole that is not, and nothing is left."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.ledger import bucket as bucket_module
from pipeline.ledger import bucket_blobs
from pipeline.ledger.blobs import PIECE_BYTES
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.bucket_blobs import STAGED, BucketBlobs
from pipeline.ledger.errors import (
    BlobDamaged,
    BlobMissing,
    BlobsUnavailable,
    FrameMissing,
    StorageFull,
)
from pipeline.ledger.frames import BucketFrames
from tests.bucket import CREDENTIALS, Faults, breaking, client, made_bucket
from tests.pipeline.ledger.factories import make_frame

PART = 5 << 20
"""The least that S3 takes for a part that is not the last."""

CONTENT = random.Random(4).randbytes(2 * PART + 12_345)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KEY = f"{SHA256[:2]}/{SHA256}"

ABC = hashlib.sha256(b"abc").hexdigest()


@pytest.fixture
def name(s3_url: str) -> str:
    return made_bucket(s3_url)


@pytest.fixture
def between(s3_url: str) -> Iterator[tuple[str, Faults]]:
    with breaking(s3_url) as found:
        yield found


@pytest.fixture
def store(name: str, between: tuple[str, Faults], tmp_path: Path) -> BucketBlobs:
    return BucketBlobs(tmp_path, Bucket(name=name, prefix="", endpoint=between[0]))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "PART_BYTES", PART)


def upload(store: BucketBlobs, content: bytes = CONTENT) -> str:
    upload_id = str(uuid.uuid4())
    store.begin(upload_id).write_bytes(content)
    return upload_id


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_large_file_goes_up_in_parts_and_is_seen_to_be_whole(
    store: BucketBlobs, name: str, s3_url: str, between: tuple[str, Faults], tmp_path: Path
) -> None:
    store.commit(upload(store), SHA256)
    head = client(s3_url).head_object(Bucket=name, Key=KEY, ChecksumMode="ENABLED")
    assert head["ETag"].endswith('-3"')
    assert head["ContentLength"] == len(CONTENT)
    assert head["ChecksumSHA256"]
    assert files(tmp_path) == []
    with store.local(SHA256) as path:
        assert path.read_bytes() == CONTENT
    # Found to be there, the same file is not sent again.
    _, faults = between
    faults.asked.clear()
    store.commit(upload(store), SHA256)
    assert {asked.split()[0] for asked in faults.asked} == {"HEAD"}
    assert files(tmp_path) == []


@pytest.mark.parametrize("size", [1000, len(CONTENT)], ids=["whole", "parts"])
def test_bytes_that_were_changed_on_their_way_are_not_taken_for_ours(
    store: BucketBlobs, between: tuple[str, Faults], size: int
) -> None:
    content = CONTENT[:size]
    sha256 = hashlib.sha256(content).hexdigest()
    upload_id = upload(store, content)
    between[1].flips = 1
    with pytest.raises(BlobDamaged):
        store.commit(upload_id, sha256)
    assert store.begin(upload_id).read_bytes() == content  # kept for another try
    store.commit(upload_id, sha256)
    with store.local(sha256) as path:
        assert path.read_bytes() == content


def test_an_object_that_its_service_tells_no_digest_of_is_told_by_its_size(
    store: BucketBlobs, name: str, s3_url: str, between: tuple[str, Faults]
) -> None:
    """Under a key of its own an object's ETag is no digest of it."""
    _, faults = between
    for content, is_sent in ((b"abcd", True), (b"abx", False)):
        client(s3_url).put_object(
            Bucket=name, Key=f"{ABC[:2]}/{ABC}", Body=content, ServerSideEncryption="aws:kms"
        )
        faults.asked.clear()
        store.commit(upload(store, b"abc"), ABC)
        assert any(asked.startswith("PUT") for asked in faults.asked) == is_sent


def test_an_upload_that_is_not_what_was_hashed_is_not_committed(store: BucketBlobs) -> None:
    upload_id = upload(store, CONTENT[:-1])
    with pytest.raises(BlobDamaged):
        store.commit(upload_id, SHA256)
    with pytest.raises(BlobMissing):
        store.size(SHA256)


def test_a_connection_that_breaks_is_made_again_where_it_broke(
    store: BucketBlobs, between: tuple[str, Faults]
) -> None:
    store.commit(upload(store), SHA256)
    _, faults = between
    faults.asked.clear()
    faults.cuts = [3_000_000, 1, 0, 0, 0]
    with store.local(SHA256) as path:
        assert path.read_bytes() == CONTENT
    ranges = [asked.rpartition("bytes=")[2] for asked in faults.asked if "bytes=" in asked]
    assert ranges[0] == f"3000000-{len(CONTENT) - 1}"
    assert ranges[1:] == [f"3000001-{len(CONTENT) - 1}"] * 4


def test_a_connection_that_always_breaks_is_given_up_and_nothing_is_left(
    store: BucketBlobs, between: tuple[str, Faults], tmp_path: Path
) -> None:
    store.commit(upload(store), SHA256)
    between[1].cuts = [0] * 50
    with pytest.raises(BlobsUnavailable), store.local(SHA256):
        pass
    assert files(tmp_path) == []


def test_an_object_that_is_replaced_while_it_is_read_is_not_mixed(
    store: BucketBlobs, name: str, s3_url: str, between: tuple[str, Faults]
) -> None:
    store.commit(upload(store), SHA256)
    between[1].cuts = [1_500_000]
    pieces = store.read(SHA256, start=0, end=len(CONTENT))
    next(pieces)
    client(s3_url).put_object(Bucket=name, Key=KEY, Body=bytes(len(CONTENT)))
    with pytest.raises(BlobDamaged):
        list(pieces)


@pytest.mark.parametrize("damaged", [CONTENT[:-1] + b"\0", CONTENT[:-1]], ids=["wrong", "short"])
def test_a_damaged_object_is_no_local_file(
    store: BucketBlobs, name: str, s3_url: str, tmp_path: Path, damaged: bytes
) -> None:
    client(s3_url).put_object(Bucket=name, Key=KEY, Body=damaged)
    with pytest.raises(BlobDamaged), store.local(SHA256):
        pytest.fail("it was handed out")
    assert files(tmp_path) == []


def test_each_block_has_a_file_of_its_own_that_goes_with_it(
    store: BucketBlobs, tmp_path: Path
) -> None:
    store.commit(upload(store), SHA256)
    with store.local(SHA256) as first:
        with suppress(KeyError), store.local(SHA256) as second:
            assert first != second
            assert second.read_bytes() == first.read_bytes()
            raise KeyError
        assert files(tmp_path) == [first]
    assert files(tmp_path) == []


def test_what_a_killed_process_has_left_goes_and_what_a_live_one_holds_stays(
    store: BucketBlobs, tmp_path: Path
) -> None:
    store.commit(upload(store), SHA256)
    staged = tmp_path / STAGED
    staged.mkdir()
    left, held, foreign = staged / ("1" * 32), staged / ("2" * 32), staged / "notes.txt"
    link = staged / ("3" * 32)
    for path in (left, held, foreign):
        path.write_bytes(b"half")
    link.symlink_to(foreign)
    descriptor = os.open(held, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with store.local(SHA256) as path:
        assert sorted(files(tmp_path)) == sorted([held, path, foreign, link])
    os.close(descriptor)
    store.clear_staged()
    assert sorted(files(tmp_path)) == sorted([foreign, link])


def test_a_pulse_comes_with_the_bytes_and_may_end_it(store: BucketBlobs, tmp_path: Path) -> None:
    store.commit(upload(store), SHA256)
    beats: list[bool] = []

    def beat(has_come: bool) -> None:
        beats.append(has_come)
        if beats.count(True) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError), store.local(SHA256, pulse=beat):
        pass
    assert beats.count(True) == 3
    assert files(tmp_path) == []


@pytest.mark.parametrize("spoken_bytes", [None, PART], ids=["at first", "half-way"])
def test_whoever_waits_for_a_silent_storage_may_leave(
    store: BucketBlobs, between: tuple[str, Faults], tmp_path: Path, spoken_bytes: int | None
) -> None:
    store.commit(upload(store), SHA256)
    between[1].silence, between[1].spoken_bytes = threading.Event(), spoken_bytes
    beats: list[bool] = []

    def beat(has_come: bool) -> None:
        beats.append(has_come)
        if beats[-3:] == [False] * 3:
            raise InterruptedError

    began = time.monotonic()
    with pytest.raises(InterruptedError), store.local(SHA256, pulse=beat):
        pass
    assert time.monotonic() - began < 30  # the storage would be silent for a minute
    assert beats.count(True) == (spoken_bytes or 0) // PIECE_BYTES
    assert files(tmp_path) == []


def test_a_recording_that_the_disk_has_no_room_for_is_not_begun(
    store: BucketBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit(upload(store), SHA256)
    room = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        bucket_blobs.shutil, "disk_usage", lambda path: room._replace(free=len(CONTENT) - 1)
    )
    with pytest.raises(StorageFull, match=str(len(CONTENT))), store.local(SHA256):
        pass
    assert files(tmp_path) == []


def test_a_service_that_is_away_or_has_no_such_bucket_is_not_a_missing_recording(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "ATTEMPTS", 1)
    away = Bucket(name="kept", prefix="", endpoint="http://127.0.0.1:1")
    elsewhere = Bucket(name="no-such-bucket", prefix="", endpoint=s3_url)
    for bucket in (away, elsewhere):
        store = BucketBlobs(tmp_path, bucket)
        upload_id = upload(store, b"abc")
        asked = (
            lambda store=store: store.size(SHA256),
            lambda store=store: store.read(SHA256, start=0, end=1),
            lambda store=store: store.local(SHA256).__enter__(),
            lambda store=store, upload_id=upload_id: store.commit(
                upload_id, hashlib.sha256(b"abc").hexdigest()
            ),
            lambda bucket=bucket: BucketFrames(bucket).read(SHA256),
        )
        for ask in asked:
            with pytest.raises(BlobsUnavailable) as caught:
                ask()
            for secret in (*CREDENTIALS.values(), "127.0.0.1"):
                assert secret not in caught.value.message
        assert store.begin(upload_id).read_bytes() == b"abc"


def test_without_credentials_the_storage_is_unavailable_and_says_why(
    s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(key)
    with pytest.raises(BlobsUnavailable, match="NoCredentialsError"):
        Bucket(name="kept", prefix="", endpoint=s3_url).size("a")


def test_frames_of_one_host_are_read_on_another(name: str, s3_url: str) -> None:
    frame = make_frame(7)
    here, there = (
        BucketFrames(Bucket(name=name, prefix="kept", endpoint=s3_url)) for _ in range(2)
    )
    with pytest.raises(FrameMissing):
        there.read(frame.sha256)
    here.keep(frame)
    here.keep(frame)
    assert there.read(frame.sha256) == frame.jpeg
    with pytest.raises(FrameMissing, match="64"):
        there.read("../x")


READER = """
import hashlib, resource, sys
from pathlib import Path
from pipeline.ledger.blobs import PIECE_BYTES
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.bucket_blobs import BucketBlobs
url, name, sha256, size, folder = sys.argv[1:]
store = BucketBlobs(Path(folder), Bucket(name=name, prefix="", endpoint=url))
store.size(sha256)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
digest = hashlib.sha256()
for piece in store.read(sha256, start=0, end=int(size)):
    digest.update(piece)
assert digest.hexdigest() == sha256
with store.local(sha256):
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_reading_and_staging_take_the_same_memory_however_long_the_recording_is(
    store: BucketBlobs, name: str, s3_url: str, tmp_path: Path, repository: Path
) -> None:
    content = CONTENT * 6  # 63 MB
    sha256 = hashlib.sha256(content).hexdigest()
    store.commit(upload(store, content), sha256)
    arguments = [s3_url, name, sha256, str(len(content)), str(tmp_path / "other")]
    ran = subprocess.run(
        [sys.executable, "-c", READER, *arguments],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    assert int(ran.stdout) * unit_bytes < 16 << 20
