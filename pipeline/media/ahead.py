"""Runs one pass over the file in a thread of its own, a bounded number of items ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

BEAT_S = 0.5
"""How often it is looked whether a pass that is waited for still moves."""


class Beat:
    """Passes on a pass's signs of life, from the thread that made it only.

    The pipe to the loop takes messages from one thread. A sign from another thread is sent by the
    one that waits, so that a pass that hangs falls silent.
    """

    def __init__(self, pulse: Callable[[], None]) -> None:
        self._pulse = pulse
        self._owner = threading.get_ident()
        self._is_moving = False

    def __call__(self) -> None:
        if threading.get_ident() == self._owner:
            self._pulse()
        else:
            self._is_moving = True

    def relay(self) -> None:
        """Send a sign where one came since the last call."""
        if self._is_moving:
            self._is_moving = False
            self._pulse()


@dataclass(frozen=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True)
class _End:
    error: BaseException | None


def ahead(items: Generator[T, None, None], *, depth: int, beat: Beat) -> Generator[T, None, None]:
    """The same items; up to `depth` are made, or being made, before they are asked for.

    What `items` raises is raised in its place. Closing it closes `items`, after the item in work.
    """
    made: queue.SimpleQueue[_Item[T] | _End] = queue.SimpleQueue()
    places = threading.Semaphore(depth)
    is_closed = threading.Event()

    def run() -> None:
        error: BaseException | None = None
        try:
            while not is_closed.is_set():
                places.acquire()
                item = next(items, made)
                if item is made:
                    break
                made.put(_Item(item))  # type: ignore[arg-type]
                del item
            items.close()
        except BaseException as raised:  # noqa: BLE001 - raised again where it is waited for
            error = raised
        made.put(_End(error))

    thread = threading.Thread(target=run, daemon=True, name="pass-ahead")
    try:
        thread.start()
    except RuntimeError as error:  # its stack does not fit under the limit
        raise MemoryError from error
    try:
        while True:
            try:
                found = made.get(timeout=BEAT_S)
            except queue.Empty:
                beat.relay()
                continue
            if isinstance(found, _End):
                if found.error is not None:
                    raise found.error
                return
            places.release()
            yield found.value
            del found
    finally:
        is_closed.set()
        places.release()
        thread.join()
