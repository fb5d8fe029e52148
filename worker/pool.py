"""Which of Celery's pools this host can run."""

from __future__ import annotations

import functools
import multiprocessing
import os

PREFORK = "prefork"
SOLO = "solo"

TEST_VARIABLE = "OMNAI_TEST_NO_SEMAPHORES"
"""Has the test suite see a host without semaphores."""


@functools.lru_cache(maxsize=1)
def pool_name() -> str:
    """One spawned process (docs/decisions/0003); this process where there are no semaphores.

    A pool of processes is built on POSIX semaphores, which Linux keeps in /dev/shm: a bare chroot
    has none that an ordinary user may write to. What must not happen is held by the database.
    """
    if TEST_VARIABLE in os.environ:
        return SOLO
    try:
        # Of this context, since a lock of the other starts a process to look after it.
        multiprocessing.get_context("fork").Lock()
    except (OSError, ImportError):
        return SOLO
    return PREFORK
