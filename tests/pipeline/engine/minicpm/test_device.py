"""One GPU belongs to one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pipeline.engine.minicpm.device import VISIBLE, DeviceRefused, HeldGpu, hold_gpu

FIRST = "GPU-11111111-aaaa-bbbb-cccc-000000000001"
SECOND = "GPU-22222222-aaaa-bbbb-cccc-000000000002"

TABLE = f"0, {FIRST}, NVIDIA A100-SXM4-80GB\n1, {SECOND}, NVIDIA A100-SXM4-80GB\n"


class Driver:
    """Answers as `nvidia-smi` does, from two files beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "nvidia-smi"
        program.write_text(
            f'#!/bin/sh\ncd "{folder}"\n'
            'case "$1" in *compute-apps*) cat apps ;; *) cat gpus ;; esac\n'
        )
        program.chmod(0o755)
        self.answer(gpus=TABLE, apps="")

    def answer(self, **tables: str) -> None:
        for name, text in tables.items():
            (self._folder / name).write_text(text)

    def forget(self, name: str) -> None:
        (self._folder / name).unlink()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setenv(VISIBLE, "")  # restored afterwards, whatever is set meanwhile
    return Driver(folder)


def held(locks: Path, wanted: str | None = None) -> HeldGpu:
    return hold_gpu(wanted, locks, wait_s=0)


def test_the_first_gpu_is_taken_and_is_all_that_cuda_sees(driver: Driver, tmp_path: Path) -> None:
    gpu = held(tmp_path)
    assert (gpu.uuid, gpu.name, gpu.are_others_known) == (FIRST, "NVIDIA A100-SXM4-80GB", True)
    assert os.environ[VISIBLE] == FIRST
    gpu.give_back()


@pytest.mark.parametrize("is_set_up", [True, False])
def test_a_gpu_is_chosen_before_cuda_is_set_up_or_not_at_all(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_set_up: bool
) -> None:
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(is_initialized=lambda: is_set_up)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    if not is_set_up:
        held(tmp_path).give_back()
        return
    with pytest.raises(DeviceRefused, match="new process"):
        held(tmp_path)
    assert os.environ[VISIBLE] == ""


@pytest.mark.parametrize("wanted", ["1", SECOND, "gpu-2222"])
def test_a_gpu_is_named_by_index_or_uuid(driver: Driver, tmp_path: Path, wanted: str) -> None:
    gpu = held(tmp_path, wanted)
    assert gpu.uuid == SECOND
    gpu.give_back()


def test_what_cuda_may_see_already_comes_before_the_first(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "1,0")
    gpu = held(tmp_path)
    assert gpu.uuid == SECOND
    gpu.give_back()


def test_an_unknown_gpu_is_refused_with_those_there_are(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(DeviceRefused, match=f"'7'.*{FIRST}.*{SECOND}"):
        held(tmp_path, "7")


def test_another_process_with_the_lock_is_refused_and_another_gpu_is_free(
    driver: Driver, tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from pipeline.engine.minicpm.device import hold_gpu\n"
        "hold_gpu('0', Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(DeviceRefused, match="another worker"):
            held(tmp_path, "0")
        held(tmp_path, "1").give_back()
        other.kill()
    held(tmp_path, "0").give_back()


def test_a_process_that_computes_there_is_refused_by_its_number(
    driver: Driver, tmp_path: Path
) -> None:
    driver.answer(apps=f"{SECOND}, 4321\n")
    held(tmp_path, "0").give_back()
    with pytest.raises(DeviceRefused, match="process 4321"):
        held(tmp_path, "1")
    driver.answer(apps="")
    held(tmp_path, "1").give_back()


def test_a_slice_of_a_gpu_is_taken_as_named_and_nobody_can_tell_who_else_is_there(
    driver: Driver, tmp_path: Path
) -> None:
    name = "MIG-33333333-aaaa-bbbb-cccc-000000000003"
    driver.answer(apps=f"{name}, 4321\n")  # no driver lists a slice so
    gpu = held(tmp_path, name)
    assert (gpu.uuid, gpu.are_others_known) == (name, False)
    gpu.give_back()


def test_a_driver_that_cannot_tell_is_said_to_be_one(driver: Driver, tmp_path: Path) -> None:
    driver.forget("apps")
    gpu = held(tmp_path)
    assert not gpu.are_others_known
    gpu.give_back()


@pytest.mark.parametrize("answer", ["", "no devices were found\n"])
def test_no_gpu_is_refused(driver: Driver, tmp_path: Path, answer: str) -> None:
    driver.answer(gpus=answer)
    with pytest.raises(DeviceRefused):
        held(tmp_path)


def test_no_driver_is_refused(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceRefused, match="nvidia-smi"):
        held(tmp_path)


def test_a_link_in_the_locks_place_is_not_followed(driver: Driver, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / f"gpu.{FIRST}.lock").symlink_to(target)
    with pytest.raises(DeviceRefused):
        held(tmp_path)
    assert not target.exists()
