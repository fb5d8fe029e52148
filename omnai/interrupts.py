"""Ctrl-C, SIGTERM and a closed terminal as one exception, raised where it leaves nothing behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Somebody asked for the end; `status` is what the process exits with."""

    def __init__(self, number: int) -> None:
        self.status = 128 + number
        super().__init__()


class Interrupts:
    """Holds the signals back, so that what is being started or ended gets done.

    Inside `taken` the first one is raised; later ones change nothing, because the end is under way.
    """

    def __init__(self) -> None:
        self._told: int | None = None
        self._is_taken = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        assert threading.current_thread() is threading.main_thread()
        for number in SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup has said that a closed terminal is not the end
            self._before[number] = signal.signal(number, self._tell)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A block that may be left at any point; raises Interrupted, also for a signal before."""
        self._is_taken = True
        try:
            self._raise()
            yield
        finally:
            self._is_taken = False

    def _tell(self, number: int, frame: FrameType | None) -> None:
        self._told = self._told or number
        self._raise()

    def _raise(self) -> None:
        if self._is_taken and self._told is not None:
            self._is_taken = False
            raise Interrupted(self._told)
