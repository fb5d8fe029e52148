"""A lock between processes that ends with its holder, however the holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnai.services.errors import ServicesBusy

POLL_S = 0.02


def try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def exclusive(path: Path, *, wait_s: float) -> Iterator[None]:
    with opened(path) as descriptor:
        deadline = time.monotonic() + wait_s
        while not try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise ServicesBusy
            time.sleep(POLL_S)
        yield
