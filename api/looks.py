"""Looks at what may hang: one at a time, and nobody waits for one longer than said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Generic, TypeVar

from pipeline.errors import OmnaiError

T = TypeVar("T")


class LookBroken(OmnaiError):
    """A look ended in a fault of OmnAI's own; its log has more."""

    code = "internal"


class Look(Generic[T]):
    """One thing to look at, for any number of threads: who asks while a look is under way gets that
    one's answer, so that what hangs holds one thread and no more."""

    def __init__(self, name: str, look: Callable[[], T]) -> None:
        self._name = name
        self._look = look
        self._lock = threading.Lock()
        self._found: futures.Future[T] | None = None

    def begin(self) -> futures.Future[T]:
        """Its `result` raises what the look raised, or TimeoutError of `concurrent.futures`."""
        with self._lock:
            if self._found is None or self._found.done():
                self._found = futures.Future()
                threading.Thread(
                    target=self._run, args=(self._found,), name=f"look-{self._name}", daemon=True
                ).start()
            return self._found

    def _run(self, found: futures.Future[T]) -> None:
        try:
            found.set_result(self._look())
        except OmnaiError as error:
            found.set_exception(error)
        finally:
            if not found.done():
                found.set_exception(LookBroken())
