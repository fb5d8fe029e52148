"""Takes one GPU for this process, and refuses it beside another holder."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import OmnaiError

VISIBLE = "CUDA_VISIBLE_DEVICES"

ASK_S = 30.0
"""A driver that has been idle takes seconds to answer."""

HOLDER_WAIT_S = 30.0
"""The driver takes back what a killed process held; until then it looks like another holder."""

POLL_S = 0.5

log = logging.getLogger(__name__)


class DeviceRefused(OmnaiError):
    """No GPU can be used."""

    code = "gpu_refused"


@dataclass(frozen=True, kw_only=True)
class HeldGpu:
    """A GPU that this process owns until it ends."""

    uuid: str
    name: str
    are_others_known: bool
    """Whether the driver could say that no other process computes on it."""
    descriptor: int
    """Of the lock file; closing it gives the GPU back."""

    def give_back(self) -> None:
        os.close(self.descriptor)


def hold_gpu(
    wanted: str | None,
    locks: Path,
    *,
    environment: Mapping[str, str] | None = None,
    wait_s: float = HOLDER_WAIT_S,
) -> HeldGpu:
    """Choose a GPU by UUID or index, lock it, and make it the only one that CUDA shows us.

    None takes the first one that CUDA would show. Raises DeviceRefused.
    """
    environment = os.environ if environment is None else environment
    _refuse_late()
    uuid, name = _chosen(wanted, environment)
    descriptor = _open_lock(locks, uuid)
    try:
        others = _wait_until_free(descriptor, uuid, time.monotonic() + wait_s)
    except BaseException:
        os.close(descriptor)
        raise
    if others is None:
        log.warning(
            "The driver does not say who else computes on the GPU.",
            extra={"action": "gpu_holders_unknown", "gpu": uuid},
        )
    os.environ[VISIBLE] = uuid
    return HeldGpu(uuid=uuid, name=name, are_others_known=others is not None, descriptor=descriptor)


def check_gpu(wanted: str | None) -> str:
    """Name of the GPU that `hold_gpu` would take; takes nothing. Raises DeviceRefused."""
    return _chosen(wanted, os.environ)[1]


def _refuse_late() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise DeviceRefused("CUDA was set up before a GPU was chosen; choose it in a new process")


def _chosen(wanted: str | None, environment: Mapping[str, str]) -> tuple[str, str]:
    wanted = wanted or environment.get(VISIBLE, "").split(",")[0].strip() or "0"
    if wanted.startswith("MIG-"):
        return wanted, "a slice of a GPU"  # listed with its GPU only
    rows = _ask("--query-gpu=index,uuid,name")
    if rows is None:
        raise DeviceRefused("nvidia-smi does not answer: a GPU with its driver would be accepted")
    for index, uuid, name in rows:
        if wanted == index or uuid.lower().startswith(_uuid(wanted)):
            return uuid, name
    known = ", ".join(f"{index} ({uuid})" for index, uuid, _ in rows) or "none"
    raise DeviceRefused(f"there is no GPU {wanted!r}; OMNAI_GPU may be one of: {known}")


def _uuid(wanted: str) -> str:
    """CUDA takes the beginning of a UUID too; an index is none."""
    return wanted.lower() if wanted.lower().startswith("gpu-") else "\0"


def _open_lock(locks: Path, uuid: str) -> int:
    locks.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c == "-" else "_" for c in uuid)
    path = locks / f"gpu.{name}.lock"
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DeviceRefused(f"{path} cannot be opened to lock the GPU") from error


def _wait_until_free(descriptor: int, uuid: str, deadline: float) -> frozenset[str] | None:
    """Other processes on the GPU: none of them at the end, or None where nobody can tell."""
    while True:
        is_locked = _lock(descriptor)
        others = _computing(uuid) if is_locked else frozenset[str]()
        if is_locked and not others:
            return others
        if time.monotonic() >= deadline:
            holder = f"process {', '.join(sorted(others))}" if others else "another worker"
            raise DeviceRefused(
                f"GPU {uuid} is held by {holder}; end it, or name another one with OMNAI_GPU"
            )
        time.sleep(POLL_S)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _computing(uuid: str) -> frozenset[str] | None:
    if uuid.startswith("MIG-"):
        return None
    rows = _ask("--query-compute-apps=gpu_uuid,pid")
    if rows is None:
        return None
    # Not one of them is this process: it has not set up CUDA yet.
    return frozenset(pid for gpu, pid, *_ in rows if gpu == uuid)


def _ask(query: str) -> list[list[str]] | None:
    """nvidia-smi's table, or None where it gives none."""
    try:
        answered = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    columns = query.count(",") + 1
    rows = [
        [cell.strip() for cell in line.split(",", columns - 1)]
        for line in answered.stdout.splitlines()
        if line.strip()
    ]
    return rows if all(len(row) == columns for row in rows) else None
