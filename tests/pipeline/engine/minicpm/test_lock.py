"""The lock says what is known and from what; a folder that is anything else is not loaded."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.minicpm.lock import (
    LOCK_PATH,
    Fingerprint,
    Host,
    LockUnreadable,
    ModelLock,
    SnapshotRefused,
    Verification,
    fingerprint_of,
    read_lock,
    verify_snapshot,
    with_fingerprints,
    write_lock,
)
from tests.pipeline.engine.minicpm.upstream import bare

SEEN = Verification(at="2026-03-31T09:00:00+00:00", source="a snapshot")


@pytest.fixture
def shipped() -> ModelLock:
    return read_lock()


@pytest.fixture
def lock(shipped: ModelLock) -> ModelLock:
    """The same, of which nothing is verified yet."""
    return bare(shipped)


@pytest.fixture
def snapshot(tmp_path: Path, lock: ModelLock) -> Path:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    for file in lock.of_snapshot:
        # Whatever stands in them must not run.
        (folder / file.path).write_text(f"raise SystemExit('{file.path} was run')\n")
    return folder


@pytest.fixture
def locked(lock: ModelLock, snapshot: Path) -> ModelLock:
    """A lock of the snapshot as it is."""
    found = {file: fingerprint_of(snapshot / file.path) for file in lock.of_snapshot}
    return with_fingerprints(lock, found, SEEN)


def codes(refused: SnapshotRefused) -> dict[str, str]:
    return {problem.where: problem.code for problem in refused.problems}


# --- the shipped lock


def test_the_shipped_lock_pins_the_model_its_sources_and_its_references(shipped: ModelLock) -> None:
    assert shipped.repository == "openbmb/MiniCPM-o-4_5"
    assert shipped.revision == "503e754207c94da6bb26850b4469f367c9ea3582"
    assert len(shipped.sources) == 5
    assert all(file.path.endswith(".py") for file in shipped.sources)
    assert {(file.host, file.repository, file.revision) for file in shipped.of_snapshot} == {
        (Host.HUB, shipped.repository, shipped.revision)
    }
    assert len(shipped.references) == 7
    assert {file.revision[:8] for file in shipped.references} == {
        "503e7542",
        "f0866559",
        "50b0865c",
    }


def test_every_fingerprint_of_the_shipped_lock_says_when_and_from_what_or_is_none(
    shipped: ModelLock,
) -> None:
    for file in shipped.every_file:
        assert file.fingerprint is None or file.fingerprint.verified.source, file.path


def test_the_shipped_lock_decodes_as_the_model_interface_says(shipped: ModelLock) -> None:
    assert shipped.decode.duplex_arguments() == {
        "generate_audio": False,
        "chunk_ms": 1000,
        "first_chunk_ms": 1035,
        "sample_rate": 16000,
        "sliding_window_mode": "basic",
        "basic_window_high_tokens": 8000,
        "basic_window_low_tokens": 6000,
        "force_listen_count": 0,
    }
    assert shipped.decode.generate_arguments() == {
        "decode_mode": "sampling",
        "temperature": 0.7,
        "top_k": 100,
        "top_p": 0.8,
        "listen_prob_scale": 1.0,
        "listen_top_k": None,
        "text_repetition_penalty": 1.05,
        "text_repetition_window_size": 512,
    }
    assert (shipped.decode.attn_implementation, shipped.decode.torch_dtype) == ("sdpa", "bfloat16")
    assert {"<unit>", "</unit>", "<|listen|>", "<|speak|>", "<|turn_eos|>"} <= set(
        shipped.required_tokens
    )


def test_a_lock_is_written_as_it_was_read(locked: ModelLock, tmp_path: Path) -> None:
    write_lock(read_lock(), tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == LOCK_PATH.read_bytes()
    write_lock(locked, tmp_path / "locked.json")
    assert read_lock(tmp_path / "locked.json") == locked
    assert not list(tmp_path.glob("*.part"))


def changed(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What no lock may be."""

    def first(**changes: Any) -> dict[str, Any]:
        return {**document, "sources": [document["sources"][0] | changes]}

    yield "another format", {**document, "format": 2}
    yield "a branch", {**document, "revision": "main"}
    yield "a short revision", {**document, "revision": document["revision"][:12]}
    yield "a path that leads out", first(path="../utils.py")
    yield "a path from the root", first(path="/etc/passwd")
    yield "an unknown key", first(note="")
    yield "no size", first(sha256="0" * 64, verified={"at": SEEN.at, "source": "x"})
    yield "no word on when", first(sha256="0" * 64, size_bytes=1, verified=None)
    yield (
        "a time of no zone",
        first(sha256="0" * 64, size_bytes=1, verified={"at": "2026-03-31T09:00", "source": "x"}),
    )
    yield (
        "no word from what",
        first(sha256="0" * 64, size_bytes=1, verified={"at": SEEN.at, "source": ""}),
    )
    yield (
        "half a hash",
        first(sha256="0" * 32, size_bytes=1, verified={"at": SEEN.at, "source": "x"}),
    )
    yield "an unknown setting", {**document, "decode": {**document["decode"], "beams": 4}}
    yield "no tokens", {name: value for name, value in document.items() if name[:4] != "requ"}


def test_a_lock_that_is_not_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model-lock.json"
    cases = dict(changed(json.loads(LOCK_PATH.read_text())))
    for name, document in cases.items():
        path.write_text(json.dumps(document))
        with pytest.raises(LockUnreadable):
            pytest.fail(f"{name} was read: {read_lock(path)}")
    for text in ("", "[]", "{"):
        path.write_text(text)
        with pytest.raises(LockUnreadable):
            read_lock(path)
    with pytest.raises(LockUnreadable):
        read_lock(tmp_path / "none.json")


# --- a folder against it


def test_a_snapshot_whose_bytes_are_the_locked_ones_is_reported_verified(
    locked: ModelLock, snapshot: Path
) -> None:
    (snapshot / "model-00001-of-00004.safetensors").write_bytes(b"weights")
    report = verify_snapshot(snapshot, locked, allow_unverified=False)
    assert report.verified == tuple(file.path for file in locked.of_snapshot)
    assert report.unverified == ()
    assert (report.repository, report.revision) == (locked.repository, locked.revision)


def test_one_changed_byte_refuses_the_snapshot_whatever_is_allowed(
    locked: ModelLock, snapshot: Path
) -> None:
    path = snapshot / "utils.py"
    path.write_bytes(path.read_bytes().replace(b"run", b"ran"))
    for allow in (False, True):
        with pytest.raises(SnapshotRefused) as caught:
            verify_snapshot(snapshot, locked, allow_unverified=allow)
        assert codes(caught.value) == {"utils.py": "file_mismatch"}
        assert hashlib.sha256(path.read_bytes()).hexdigest() in caught.value.message


def test_every_missing_unverified_and_mismatching_file_is_named_at_once(
    locked: ModelLock, snapshot: Path
) -> None:
    first, *others = locked.sources
    half = replace(locked, sources=(replace(first, fingerprint=None), *others))
    (snapshot / "config.json").unlink()
    (snapshot / "tokenizer.json").write_text("{}")
    (snapshot / "sitecustomize.py").write_text("")
    with pytest.raises(SnapshotRefused) as caught:
        verify_snapshot(snapshot, half, allow_unverified=False)
    assert codes(caught.value) == {
        "config.json": "file_missing",
        "tokenizer.json": "file_mismatch",
        first.path: "file_unverified",
        "sitecustomize.py": "file_unlisted",
    }


def test_a_missing_file_is_refused_even_where_nothing_is_known_of_it(
    lock: ModelLock, snapshot: Path
) -> None:
    (snapshot / lock.sources[0].path).unlink()
    with pytest.raises(SnapshotRefused) as caught:
        verify_snapshot(snapshot, lock, allow_unverified=True)
    assert codes(caught.value) == {lock.sources[0].path: "file_missing"}


def test_the_override_lets_unverified_files_through_and_says_so_in_the_log(
    locked: ModelLock, snapshot: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, *others = locked.sources
    half = replace(locked, sources=(replace(first, fingerprint=None), *others))
    (snapshot / "more.py").write_text("")
    with caplog.at_level(logging.WARNING):
        report = verify_snapshot(snapshot, half, allow_unverified=True)
    assert report.unverified == (first.path, "more.py")
    assert first.path not in report.verified
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "OMNAI_MODEL_ALLOW_UNVERIFIED" in record.getMessage()
    assert record.__dict__["files"] == [first.path, "more.py"]


def test_a_folder_that_is_not_there_is_refused(lock: ModelLock, tmp_path: Path) -> None:
    with pytest.raises(SnapshotRefused, match="omnai model download"):
        verify_snapshot(tmp_path / "none", lock, allow_unverified=True)


# --- fingerprints


def test_a_known_fingerprint_stays_and_another_for_it_is_refused(
    locked: ModelLock, snapshot: Path
) -> None:
    later = Verification(at="2026-04-01T09:00:00+00:00", source="another snapshot")
    found = {file: fingerprint_of(snapshot / file.path) for file in locked.of_snapshot}
    assert with_fingerprints(locked, found, later) == locked
    found[locked.sources[0]] = ("0" * 64, 1)
    with pytest.raises(SnapshotRefused) as caught:
        with_fingerprints(locked, found, later)
    assert codes(caught.value) == {locked.sources[0].path: "file_mismatch"}


def test_what_was_not_looked_at_stays_unknown(lock: ModelLock) -> None:
    file = replace(lock.sources[0], fingerprint=None)
    lock = replace(lock, sources=(file,), companions=(), references=lock.references)
    filled = with_fingerprints(lock, {file: ("0" * 64, 1)}, SEEN)
    assert filled.sources[0].fingerprint == Fingerprint(
        sha256="0" * 64, size_bytes=1, verified=SEEN
    )
    assert filled.references == lock.references


def test_neither_torch_nor_model_code_is_imported_to_check_a_snapshot(
    locked: ModelLock, snapshot: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lock.json"
    write_lock(locked, path)
    code = (
        "import sys, pathlib; from pipeline.engine.minicpm.lock import *;"
        "verify_snapshot(pathlib.Path(sys.argv[2]), read_lock(pathlib.Path(sys.argv[1])),"
        " allow_unverified=False);"
        "print(sorted({'torch', 'transformers', 'huggingface_hub', 'tokenizers', 'httpx'}"
        " & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, path, snapshot], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"
