"""The locked revision arrives whole, goes on where it broke off, and tells nobody the token."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.engine.minicpm.download import DownloadFailed, download, origin
from pipeline.engine.minicpm.lock import ModelLock, read_lock
from pipeline.prompt import TOKENIZER_FILES
from tests.pipeline.engine.minicpm.hub import Hub, serving

CHUNK = 10 * 1024 * 1024
"""The hub's client writes to the disk in pieces of so many bytes."""

WEIGHTS = bytes(range(256)) * (2 * CHUNK // 256) + b"the end"

TOKEN = "hf_ThisIsNobodysToken"


@pytest.fixture(scope="module")
def lock() -> ModelLock:
    return read_lock()


@pytest.fixture
def hub(lock: ModelLock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    files = {file.path: file.path.encode() for file in lock.of_snapshot}
    files |= {
        "README.md": b"# A model",
        "model-00001-of-00001.safetensors": WEIGHTS,
        "assets/voice.wav": b"a voice",
        "assets/deep/voice.wav": b"another",
    }
    with serving(Hub(repository=lock.repository, revision=lock.revision, files=files)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub


def held(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".cache" not in path.relative_to(folder).parts
    }


def test_the_whole_revision_arrives_without_its_assets(
    hub: Hub, lock: ModelLock, tmp_path: Path
) -> None:
    paths = download(lock, tmp_path)
    wanted = {path for path in hub.files if not path.startswith("assets/")}
    assert held(tmp_path) == set(paths) == wanted
    for path in wanted:
        assert (tmp_path / path).read_bytes() == hub.files[path]


def test_what_is_there_is_not_fetched_again(hub: Hub, lock: ModelLock, tmp_path: Path) -> None:
    download(lock, tmp_path)
    hub.gets.clear()
    download(lock, tmp_path)
    assert hub.gets == []


def test_a_download_that_broke_off_goes_on_where_it_was(
    hub: Hub, lock: ModelLock, tmp_path: Path
) -> None:
    hub.breaks_off_after = CHUNK + 4096
    with pytest.raises(DownloadFailed):
        download(lock, tmp_path)
    assert "model-00001-of-00001.safetensors" not in held(tmp_path)
    hub.breaks_off_after = None
    hub.gets.clear()
    download(lock, tmp_path)
    assert (tmp_path / "model-00001-of-00001.safetensors").read_bytes() == WEIGHTS
    assert ("model-00001-of-00001.safetensors", f"bytes={CHUNK}-") in hub.gets


def test_only_what_counting_needs_is_fetched_where_that_is_asked_for(
    hub: Hub, lock: ModelLock, tmp_path: Path
) -> None:
    assert set(download(lock, tmp_path, only=TOKENIZER_FILES)) == set(TOKENIZER_FILES)
    assert held(tmp_path) == set(TOKENIZER_FILES)
    del hub.files["tokenizer.json"]
    with pytest.raises(DownloadFailed, match=r"has no tokenizer\.json at"):
        download(lock, tmp_path / "other", only=TOKENIZER_FILES)


def test_the_token_is_sent_from_the_environment_alone_and_never_logged(
    hub: Hub,
    lock: ModelLock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    stored = tmp_path / "stored"
    stored.write_text("hf_OfThisMachine")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(stored))
    download(lock, tmp_path / "without", only=TOKENIZER_FILES)
    assert hub.tokens == {None}
    hub.tokens.clear()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with caplog.at_level(logging.DEBUG):
        download(lock, tmp_path / "with", only=TOKENIZER_FILES)
        assert hub.tokens == {f"Bearer {TOKEN}"}
        hub.status = 403
        with pytest.raises(DownloadFailed) as caught:
            download(lock, tmp_path / "refused")
    # Its warnings carry addresses, some of them signed.
    assert logging.getLogger("huggingface_hub").getEffectiveLevel() >= logging.ERROR
    said = caplog.text + "".join(capfd.readouterr()) + caught.value.message
    assert TOKEN not in said
    assert "HF_TOKEN must be" in caught.value.message
    for path in (tmp_path / "with").rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


def test_a_hub_with_another_revision_is_not_believed(
    hub: Hub, lock: ModelLock, tmp_path: Path
) -> None:
    hub.sha = "0" * 40
    with pytest.raises(DownloadFailed, match=f"not {lock.revision}"):
        download(lock, tmp_path)
    assert held(tmp_path) == set()


def test_a_hub_that_lists_files_and_does_not_give_them_is_told(
    hub: Hub, lock: ModelLock, tmp_path: Path
) -> None:
    hub.file_status = 403  # at once: 503 is asked for again after longer and longer pauses
    with pytest.raises(DownloadFailed, match="did not give every file"):
        download(lock, tmp_path)


def test_a_half_filled_folder_is_not_taken_for_a_whole_one_while_the_hub_is_away(
    hub: Hub, lock: ModelLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    download(lock, tmp_path, only=TOKENIZER_FILES)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadFailed, match="cannot be reached"):
        download(lock, tmp_path)


def test_a_downloaded_file_tells_where_it_is_from_and_whether_it_was_changed(
    hub: Hub, lock: ModelLock, tmp_path: Path
) -> None:
    download(lock, tmp_path, only=["utils.py"])
    found = origin(tmp_path, "utils.py")
    assert found is not None
    assert found.revision == lock.revision
    assert found.is_of(hub.files["utils.py"])
    assert not found.is_of(hub.files["utils.py"] + b"\n")
    assert origin(tmp_path, "config.json") is None


def test_a_file_in_the_hubs_own_cache_tells_the_same(tmp_path: Path) -> None:
    content = b"large"
    blob = tmp_path / "blobs" / hashlib.sha256(content).hexdigest()
    blob.parent.mkdir()
    blob.write_bytes(content)
    folder = tmp_path / "snapshots" / "0123"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").symlink_to(blob)
    (folder / "put-there.json").write_bytes(content)
    found = origin(folder, "tokenizer.json")
    assert found is not None
    assert (found.revision, found.is_of(content), found.is_of(b"")) == ("0123", True, False)
    assert origin(folder, "put-there.json") is None
