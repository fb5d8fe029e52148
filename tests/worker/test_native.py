"""A worker that owns a GPU: what it refuses to begin on, its slot, and what its epochs keep."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.engine.minicpm.device import VISIBLE, DeviceRefused
from pipeline.engine.registry import TEST_ENGINE_VARIABLE
from pipeline.ledger import workers
from pipeline.records import JobState
from pipeline.settings import Settings
from tests.hosts import until
from tests.pipeline.engine.minicpm.test_device import FIRST, SECOND, Driver
from tests.processes import needs_proc
from tests.worker import native_shaped
from tests.worker.conftest import Host, check
from worker import pool, slot
from worker.enqueue import ring
from worker.slot import SlotTaken, locked, pinned, slot_name
from worker.startup import REFUSED, WorkerRefused, check_engine

NATIVE = "minicpmo"

LONG_SETTING = "OMNAI_TEST_LONG"
LONG = pytest.mark.skipif(LONG_SETTING not in os.environ, reason=f"set {LONG_SETTING} to run it")

BEGIN_S = 60


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv(VISIBLE, "")
    slot._gpu_uuid.cache_clear()
    yield Driver(folder)
    slot._gpu_uuid.cache_clear()


@pytest.fixture
def no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path))
    slot._gpu_uuid.cache_clear()
    yield
    slot._gpu_uuid.cache_clear()


def settings(tmp_path: Path, **changes: str) -> Settings:
    return replace(Settings(engine=NATIVE, data_dir=tmp_path, host_name="host"), **changes)


def test_all_that_the_model_lacks_is_named_at_once(no_driver: None, tmp_path: Path) -> None:
    with pytest.raises(WorkerRefused) as caught:
        check_engine(settings(tmp_path))
    packages = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    problems = [(problem.code, problem.where) for problem in caught.value.problems]
    assert problems == [
        *(("package_missing", name) for name in packages),
        ("gpu_refused", "OMNAI_GPU"),
        ("snapshot_missing", str(tmp_path / "model")),
    ]
    check_engine(replace(settings(tmp_path), engine="rehearsal"))


def test_a_slot_is_the_gpus_uuid_however_the_gpu_is_named(driver: Driver, tmp_path: Path) -> None:
    for wanted, uuid in ((None, FIRST), ("1", SECOND), (SECOND[:12], SECOND), (SECOND, SECOND)):
        asked = replace(settings(tmp_path), gpu=wanted)
        assert slot_name(asked) == uuid
        assert pinned(asked).gpu == uuid
    with pytest.raises(DeviceRefused, match="one of: 0"):
        slot_name(replace(settings(tmp_path), gpu="7"))
    rehearsal = replace(settings(tmp_path), engine="rehearsal")
    assert (slot_name(rehearsal), pinned(rehearsal)) == ("host/0", rehearsal)


def test_one_gpu_is_one_slot_whatever_number_and_host_name_are_given(
    driver: Driver, tmp_path: Path
) -> None:
    first = replace(settings(tmp_path), gpu="0")
    other = replace(first, gpu=FIRST, slot=1, host_name="another")
    with locked(first, slot.SUPERVISOR):
        with pytest.raises(SlotTaken), locked(other, slot.SUPERVISOR):
            pass
        with locked(replace(first, gpu="1"), slot.SUPERVISOR):
            pass


@needs_proc
def test_a_worker_without_its_model_ends_with_a_reason_and_claims_nothing(
    make_host: Callable[..., Host], no_driver: None
) -> None:
    host = make_host(engine=NATIVE)
    job_id = host.submit(engine=NATIVE)
    assert ring(host.settings)
    assert host.start().wait(timeout=60) == 2
    assert "worker_refused: " in host.log()
    assert "nvidia-smi does not answer" in host.log()
    assert "there is no such folder" in host.log()
    assert "Traceback" not in host.log()
    assert host.state(job_id) is JobState.QUEUED
    assert workers.listed(host.database) == ()
    assert host.held() == 0
    assert check(host.settings)[0] == 1


@needs_proc
@pytest.mark.parametrize("variables", [{}, pytest.param({pool.TEST_VARIABLE: "1"}, marks=LONG)])
def test_a_model_that_does_not_load_ends_the_worker_before_it_claims(
    host: Host, variables: dict[str, str]
) -> None:
    host.environment |= {TEST_ENGINE_VARIABLE: native_shaped.REFUSING, **variables}
    job_id = host.submit()
    assert ring(host.settings)
    assert host.start().wait(timeout=60) == REFUSED
    assert "torch finds no CUDA device" in host.log()
    assert "another is started" not in host.log()
    assert host.state(job_id) is JobState.QUEUED
    assert (host.held(), host.pids()) == (0, [])


@needs_proc
def test_what_the_model_was_found_to_run_with_is_in_the_brief(host: Host) -> None:
    host.environment[TEST_ENGINE_VARIABLE] = native_shaped.NAME
    host.start()
    until(lambda: host.loaded()["loads"] == 1)
    job_id = host.submit(start_s=BEGIN_S)
    ring(host.settings)
    host.await_state(job_id, JobState.SUCCEEDED)
    (epoch,) = host.brief(job_id)["provenance"]["epochs"]
    assert epoch["device"] == "cuda:0"
    assert epoch["revision"] == native_shaped.LOCK.revision
    found = {setting["name"]: setting["value"] for setting in epoch["settings"]}
    assert found == native_shaped.SETTINGS
    assert epoch["spoke"] == 1
