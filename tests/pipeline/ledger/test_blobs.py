"""Stored uploads: whole under their digest, or not there, wherever they are stored."""

from __future__ import annotations

import hashlib
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.ledger.blobs import BlobStore, FolderBlobs
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.bucket_blobs import BucketBlobs
from pipeline.ledger.errors import BlobDamaged, BlobMissing, UploadUnknown
from tests.bucket import client, made_bucket
from tests.processes import needs_proc

CONTENT = b"a recording"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Place(ABC):
    """A store, and what a test sees of it from outside."""

    store: BlobStore

    @abstractmethod
    def names(self) -> list[str]:
        """Of everything there, also of what is under way."""

    @abstractmethod
    def overwrite(self, content: bytes) -> None:
        """Put other bytes under the name of SHA256."""

    def upload(self, content: bytes = CONTENT) -> str:
        upload_id = str(uuid.uuid4())
        self.store.begin(upload_id).write_bytes(content)
        return upload_id

    def held(self) -> bytes:
        with self.store.local(SHA256) as path:
            return path.read_bytes()


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


class FolderPlace(Place):
    def __init__(self, root: Path) -> None:
        self._root = root
        self.store = self._folder = FolderBlobs(root)

    def names(self) -> list[str]:
        return files(self._root)

    def overwrite(self, content: bytes) -> None:
        self._folder.path(SHA256).write_bytes(content)


class BucketPlace(Place):
    def __init__(self, root: Path, url: str) -> None:
        self._root = root
        self._client = client(url)
        self._name = made_bucket(url)
        bucket = Bucket(name=self._name, prefix="kept/here", endpoint=url)
        self.store = BucketBlobs(root, bucket)

    def names(self) -> list[str]:
        listed = self._client.list_objects_v2(Bucket=self._name).get("Contents", [])
        kept = [found["Key"].removeprefix("kept/here/") for found in listed]
        return sorted(kept + files(self._root))

    def overwrite(self, content: bytes) -> None:
        key = f"kept/here/{SHA256[:2]}/{SHA256}"
        self._client.put_object(Bucket=self._name, Key=key, Body=content)


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    root = tmp_path / "blobs"
    if request.param == "folder":
        return FolderPlace(root)
    return BucketPlace(root, request.getfixturevalue("s3_url"))


def test_an_upload_comes_to_stand_under_its_digest(place: Place) -> None:
    upload_id = place.upload()
    assert place.names() == [f"incoming/{upload_id}"]
    place.store.commit(upload_id, SHA256)
    assert place.names() == [f"{SHA256[:2]}/{SHA256}"]
    assert place.held() == CONTENT
    assert place.store.size(SHA256) == len(CONTENT)


def test_the_same_bytes_again_are_one_blob(place: Place) -> None:
    place.store.commit(place.upload(), SHA256)
    place.store.commit(place.upload(), SHA256)
    assert place.names() == [f"{SHA256[:2]}/{SHA256}"]


@pytest.mark.parametrize("damage", [b"damaged", b"a recorDing"])
def test_a_damaged_blob_is_healed_by_the_next_upload(place: Place, damage: bytes) -> None:
    place.store.commit(place.upload(), SHA256)
    place.overwrite(damage)
    place.store.commit(place.upload(), SHA256)
    assert place.held() == CONTENT


@needs_proc
def test_a_file_is_synced_before_it_has_its_name_and_the_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = FolderPlace(tmp_path / "new" / "blobs")
    upload_id = place.upload()
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def seen_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    place.store.commit(upload_id, SHA256)
    assert steps == ["sync blobs", f"sync {upload_id}", "rename", f"sync {SHA256[:2]}"]


def test_a_commit_may_be_repeated(place: Place) -> None:
    upload_id = place.upload()
    place.store.commit(upload_id, SHA256)
    place.store.commit(upload_id, SHA256)
    assert place.held() == CONTENT


def test_a_commit_of_nothing_is_an_error(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.store.commit(str(uuid.uuid4()), SHA256)
    with pytest.raises(BlobMissing):
        place.store.size(SHA256)


def test_the_same_bytes_from_many_at_once_are_one_whole_blob(place: Place) -> None:
    uploads = [place.upload() for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda upload_id: place.store.commit(upload_id, SHA256), uploads))
    assert place.names() == [f"{SHA256[:2]}/{SHA256}"]
    assert place.held() == CONTENT


def test_a_discarded_upload_leaves_nothing_and_no_blob_goes(place: Place) -> None:
    kept = place.upload()
    place.store.commit(kept, SHA256)
    upload_id = place.upload(b"half of")
    for discarded in (upload_id, upload_id, kept):
        place.store.discard(discarded)
    assert place.names() == [f"{SHA256[:2]}/{SHA256}"]


def test_what_is_removed_is_missing_and_may_come_again(place: Place) -> None:
    place.store.commit(place.upload(), SHA256)
    place.store.remove(SHA256)
    place.store.remove(SHA256)
    assert place.names() == []
    place.store.commit(place.upload(), SHA256)
    assert place.held() == CONTENT


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.size(SHA256),
        lambda store: store.read(SHA256, start=0, end=1),
        lambda store: store.local(SHA256).__enter__(),
    ],
    ids=["size", "read", "local"],
)
def test_what_is_not_there_is_missing_at_once(
    place: Place, ask: Callable[[BlobStore], object]
) -> None:
    with pytest.raises(BlobMissing):
        ask(place.store)
    assert place.names() == []


def test_a_range_gives_its_bytes_in_pieces(place: Place) -> None:
    content = bytes(range(256)) * 10_000
    sha256 = hashlib.sha256(content).hexdigest()
    place.store.commit(place.upload(content), sha256)
    for start, end in ((0, len(content)), (5, 6), (1_000_000, 2_200_000), (7, 7)):
        pieces = list(place.store.read(sha256, start=start, end=end))
        assert b"".join(pieces) == content[start:end]
        assert all(0 < len(piece) <= 1 << 20 for piece in pieces)


def test_a_blob_that_is_shorter_than_it_was_says_so_before_its_first_byte(place: Place) -> None:
    place.store.commit(place.upload(), SHA256)
    place.overwrite(CONTENT[:-1])
    with pytest.raises(BlobDamaged):
        place.store.read(SHA256, start=0, end=len(CONTENT))
    with pytest.raises(BlobDamaged):
        place.store.read(SHA256, start=len(CONTENT) - 1, end=len(CONTENT))


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", SHA256.upper(), SHA256 + "\n"])
def test_nothing_but_a_digest_is_a_blobs_name(place: Place, name: str) -> None:
    with pytest.raises(BlobMissing, match="64"):
        place.store.size(name)
    with pytest.raises(BlobMissing, match="64"):
        place.store.commit(place.upload(), name)


@pytest.mark.parametrize("upload_id", ["", "..", "../x", "/etc/passwd"])
def test_nothing_but_an_id_is_an_uploads_name(tmp_path: Path, upload_id: str) -> None:
    store = FolderBlobs(tmp_path)
    with pytest.raises(UploadUnknown):
        store.begin(upload_id)
    with pytest.raises(UploadUnknown):
        store.commit(upload_id, SHA256)
    with pytest.raises(UploadUnknown):
        store.discard(upload_id)
