"""Stored uploads: whole under their digest, or not there."""

from __future__ import annotations

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.ledger.blobs import BlobStore
from pipeline.ledger.errors import BlobMissing, UploadUnknown

CONTENT = b"a recording"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def upload(store: BlobStore, content: bytes = CONTENT) -> str:
    upload_id = str(uuid.uuid4())
    store.begin(upload_id).write_bytes(content)
    return upload_id


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_an_upload_comes_to_stand_under_its_digest(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    upload_id = upload(store)
    assert names(tmp_path) == [f"blobs/incoming/{upload_id}"]
    path = store.commit(upload_id, SHA256)
    assert path == store.path(SHA256)
    assert names(tmp_path) == [f"blobs/{SHA256[:2]}/{SHA256}"]
    assert path.read_bytes() == CONTENT


def test_the_same_bytes_again_are_one_blob(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    store.commit(upload(store), SHA256)
    store.commit(upload(store), SHA256)
    assert names(tmp_path) == [f"{SHA256[:2]}/{SHA256}"]


def test_a_damaged_blob_is_healed_by_the_next_upload(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    store.commit(upload(store), SHA256).write_bytes(b"damaged")
    assert store.commit(upload(store), SHA256).read_bytes() == CONTENT


def test_a_commit_may_be_repeated(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    upload_id = upload(store)
    store.commit(upload_id, SHA256)
    assert store.commit(upload_id, SHA256).read_bytes() == CONTENT


def test_a_commit_of_nothing_is_an_error(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    with pytest.raises(FileNotFoundError):
        store.commit(str(uuid.uuid4()), SHA256)
    assert not store.path(SHA256).exists()


def test_the_same_bytes_from_many_at_once_are_one_whole_blob(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    uploads = [upload(store) for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        paths = set(threads.map(lambda upload_id: store.commit(upload_id, SHA256), uploads))
    assert paths == {store.path(SHA256)}
    assert names(tmp_path) == [f"{SHA256[:2]}/{SHA256}"]
    assert store.path(SHA256).read_bytes() == CONTENT


def test_a_discarded_upload_leaves_nothing_and_no_blob_goes(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    kept = upload(store)
    store.commit(kept, SHA256)
    upload_id = upload(store, b"half of")
    for discarded in (upload_id, upload_id, kept):
        store.discard(discarded)
    assert names(tmp_path) == [f"{SHA256[:2]}/{SHA256}"]


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", SHA256.upper(), SHA256 + "\n"])
def test_nothing_but_a_digest_is_a_blobs_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(BlobMissing):
        BlobStore(tmp_path).path(name)


@pytest.mark.parametrize("upload_id", ["", "..", "../x", "/etc/passwd"])
def test_nothing_but_an_id_is_an_uploads_name(tmp_path: Path, upload_id: str) -> None:
    store = BlobStore(tmp_path)
    with pytest.raises(UploadUnknown):
        store.begin(upload_id)
    with pytest.raises(UploadUnknown):
        store.commit(upload_id, SHA256)
    with pytest.raises(UploadUnknown):
        store.discard(upload_id)
