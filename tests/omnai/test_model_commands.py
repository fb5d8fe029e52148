"""The commands and scripts around the model's files, each as an operator calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from pipeline.engine.minicpm import lock as locks
from pipeline.engine.minicpm import runtime
from pipeline.engine.minicpm.lock import ModelLock, read_lock, verify_snapshot, write_lock
from pipeline.prompt import TOKENIZER_FILES, TokenCounter
from tests.pipeline.engine.minicpm import upstream, vocabulary
from tests.pipeline.engine.minicpm.hub import Hub, serving

ROOT = Path(__file__).parents[2]

Ran = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """A command with its data in a folder of this test."""
    for name in [name for name in os.environ if name.startswith("OMNAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNAI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")

    def call(*arguments: str) -> Ran:
        asked = CliRunner().invoke(app, ["model", *arguments])
        return asked.exit_code, asked.stdout, asked.stderr

    return call


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with our small upstream at the locked revision, and a vocabulary that has it all."""
    lock = read_lock()
    folder = tmp_path_factory.mktemp("hub")
    upstream.write(folder, lock)
    vocabulary.write(folder, special=lock.required_tokens)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files |= {"README.md": b"# A model", "assets/voice.wav": b"a voice"}
    with serving(Hub(repository=lock.repository, revision=lock.revision, files=files)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def lock_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of this test in which nothing is verified, in the place of the shipped one."""
    path = tmp_path / "model-lock.json"
    write_lock(upstream.bare(read_lock()), path)
    shipped = locks.read_lock
    monkeypatch.setattr(locks, "read_lock", lambda at=path: shipped(at))
    return path


def record(folder: Path, lock_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "lock_model.py", folder, "--lock", lock_path],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_snapshot_is_downloaded_recorded_and_then_loads_without_the_override(
    run: Callable[..., Ran], hub: Hub, lock_path: Path, tmp_path: Path
) -> None:
    status, out, _ = run("download", "--json")
    assert status == 0
    told = json.loads(out)
    folder = tmp_path / "model"
    assert (told["folder"], told["revision"]) == (str(folder), hub.revision)
    assert set(told["files"]) == {path for path in hub.files if not path.startswith("assets/")}

    status, out, _ = run("verify")
    assert status == 3
    assert "Nobody has verified" in out

    ran = record(folder, lock_path)
    assert ran.returncode == 0, ran.stderr
    assert "11 of 17 files are verified" in ran.stdout
    lock: ModelLock = read_lock(lock_path)
    assert verify_snapshot(folder, lock, allow_unverified=False).unverified == ()
    seen = {file.fingerprint.verified.source for file in lock.of_snapshot if file.fingerprint}
    assert seen == {"a snapshot of openbmb/MiniCPM-o-4_5 at this revision"}

    status, out, _ = run("verify", "--json")
    assert status == 0
    assert json.loads(out)["is_verified"]

    (folder / "utils.py").write_text("")
    status, _, error = run("verify")
    assert status == 2
    assert "utils.py: it has sha256" in error


def test_a_folder_of_unknown_origin_is_not_recorded(
    hub: Hub, lock_path: Path, tmp_path: Path, run: Callable[..., Ran]
) -> None:
    before = lock_path.read_bytes()
    ran = record(upstream.write(tmp_path / "copied", read_lock()), lock_path)
    assert ran.returncode == 2
    assert "utils.py: nothing in the folder tells where it is from" in ran.stderr
    run("download")
    (tmp_path / "model" / "config.json").write_text("{}")
    ran = record(tmp_path / "model", lock_path)
    assert ran.returncode == 2
    assert "config.json: it was changed after its download" in ran.stderr
    assert lock_path.read_bytes() == before


def test_a_host_without_a_gpu_gets_just_the_tokenizer_and_can_count(
    run: Callable[..., Ran], hub: Hub, tmp_path: Path
) -> None:
    status, out, _ = run("tokenizer", "--json")
    assert status == 0
    assert json.loads(out)["files"] == list(TOKENIZER_FILES)
    assert {path for path, _ in hub.gets} == set(TOKENIZER_FILES)
    assert TokenCounter(tmp_path / "model").context_tokens("a") == 1 + len("|system\n|")


def test_a_tokenizer_of_another_model_fails_by_the_names_of_what_it_lacks(
    run: Callable[..., Ran], hub: Hub, tmp_path: Path
) -> None:
    vocabulary.write(tmp_path / "other", special=["<|im_start|>", "<|im_end|>"])
    hub.files["tokenizer.json"] = (tmp_path / "other" / "tokenizer.json").read_bytes()
    status, _, error = run("tokenizer")
    assert status == 1
    assert "<|listen|>" in error
    assert "<|im_start|>" not in error


def test_a_download_that_fails_says_why_and_not_how_it_asked(
    run: Callable[..., Ran], hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ThisIsNobodysToken")
    hub.status = 401
    status, out, error = run("download", "--json")
    assert status == 1
    assert json.loads(error)["error"] == "model_download_failed"
    assert "hf_ThisIsNobodysToken" not in out + error
    assert hub.url not in out + error


def test_the_runtime_is_compared_with_its_pins(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = runtime.read_pins()
    monkeypatch.setattr("platform.python_version", lambda: "3.10.18")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    found = {**pins, "nvidia-cublas-cu12": "12.6.4.1"}
    monkeypatch.setattr(runtime, "installed", lambda: found)
    status, out, _ = run("runtime")
    assert status == 1
    assert "nvidia-cublas-cu12" in out
    assert "12.6.4.1" in out
    assert "1 differences" in out
    found["nvidia-cublas-cu12"] = pins["nvidia-cublas-cu12"]
    status, out, _ = run("runtime", "--json")
    assert (status, json.loads(out)) == (0, {"pinned": len(pins), "differences": []})


def test_the_script_checks_a_local_snapshot_without_network(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "verify_model_sources.py"
    folder = upstream.write(tmp_path, read_lock())
    (folder / "utils.py").unlink()
    ran = subprocess.run(
        [sys.executable, script, "--snapshot", folder, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    codes = {found["code"] for found in json.loads(ran.stdout)["problems"]}
    assert {"file_missing", "contract_unreadable"} <= codes
