"""A worker's slot: its name, and the locks that keep it to one supervisor and one process."""

from __future__ import annotations

import fcntl
import functools
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from pipeline.errors import OmnaiError
from pipeline.settings import Settings

POLL_S = 0.05

ON_GPU = "minicpmo"
"""The engine whose slot is a GPU."""

UUID_CHARS = 40
"""Of a whole GPU's UUID; a shorter one is a beginning that the driver may know."""

_LOCAL = "/analyze/"

SUPERVISOR = "supervisor"
ENGINE = "engine"

LOADED = "loaded"
"""Not a lock: a file that is there once a process of this slot has loaded its engine."""


class SlotTaken(OmnaiError):
    """Another worker of this host has this slot; choose another number with OMNAI_SLOT, or another
    GPU with OMNAI_GPU."""

    code = "slot_taken"


def slot_name(settings: Settings) -> str:
    """A GPU's UUID, which no other host has; without one the host's name and a number.

    Raises DeviceRefused where the driver does not say which GPU it is.
    """
    if settings.engine == ON_GPU:
        return _gpu_uuid(settings.gpu)
    return f"{settings.host_name}/{settings.slot}"


def local_name(settings: Settings) -> str:
    """A slot for one `omnai analyze`, which takes no worker's."""
    return f"{settings.host_name}{_LOCAL}{uuid.uuid4()}"


def is_local(name: str) -> bool:
    """Whether nobody ever takes this slot again."""
    return _LOCAL in name


def pinned(settings: Settings) -> Settings:
    """The same with its GPU by UUID, so that every process of this slot means the same one.

    Raises DeviceRefused.
    """
    if settings.engine != ON_GPU:
        return settings
    return replace(settings, gpu=slot_name(settings))


@contextmanager
def locked(settings: Settings, role: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the slot in a role until the block or the process ends, however it ends.

    Raises SlotTaken.
    """
    path = _path(settings, role)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        while not _try(descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise SlotTaken
            time.sleep(POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(settings: Settings, role: str) -> int | None:
    """The process that holds the slot in a role; none where nobody does."""
    try:
        descriptor = os.open(_path(settings, role), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _try(descriptor, fcntl.LOCK_SH):
            return None
        text = os.pread(descriptor, 32, 0).decode().strip()
        return int(text) if text else None
    finally:
        os.close(descriptor)


def tell_loaded(settings: Settings) -> None:
    """Leave word for the supervisor that the engine can be loaded here."""
    _path(settings, LOADED).touch()


def take_loaded(settings: Settings) -> bool:
    """Whether that word was left since the last call."""
    try:
        _path(settings, LOADED).unlink()
    except FileNotFoundError:
        return False
    return True


@functools.lru_cache(maxsize=1)
def _gpu_uuid(wanted: str | None) -> str:
    from pipeline.engine.minicpm import device  # late: most workers have no GPU

    if wanted is not None and wanted.startswith("GPU-") and len(wanted) == UUID_CHARS:
        return wanted
    uuid, _ = device._chosen(wanted, os.environ)
    return uuid


def _try(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _path(settings: Settings, role: str) -> Path:
    name = quote(slot_name(settings), safe="")
    return settings.data_dir / "locks" / f"{name}.{role}.lock"
