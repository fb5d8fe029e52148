"""The media process, confined and real, that comes to a bad end at one named place.

Run as a program with the place, how it ends, and the process's one argument.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pipeline.media.__main__ as media
from pipeline.records import MediaEnd, Probe, Unit
from pipeline.wire import Message, Pulse, encode


def by_signal(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def overrun() -> None:
    """A real fault of memory, not a signal that somebody sent."""
    ctypes.string_at(8)


def swallow_memory() -> None:
    held = []
    while True:
        held.append(bytes(64 << 20))


def spin() -> NoReturn:
    while True:
        pass


def close_and_stay() -> None:
    os.closerange(3, 64)
    time.sleep(60)


HOW: dict[str, Callable[[], object]] = {
    "killed": by_signal(signal.SIGKILL),
    "segfault": overrun,
    "abort": by_signal(signal.SIGABRT),
    "bus error": by_signal(signal.SIGBUS),
    "stopped": by_signal(signal.SIGSTOP),
    "memory bomb": swallow_memory,
    "exit": lambda: os._exit(0),
    "closed": close_and_stay,
    "fault": lambda: [][1],
}


class HaltingPipe(media._Pipe):
    """Sends as the real one, until it is at its place."""

    place = ""
    end: Callable[[], object] = staticmethod(spin)

    def send(self, message: Message) -> None:
        name = _name(message)
        if self.place == f"before {name}":
            type(self).end()
        if self.place == f"in {name}":
            data = encode(message)
            os.write(self._descriptor, data[: len(data) // 2])
            type(self).end()
        super().send(message)
        if self.place == f"after {name}":
            type(self).end()
        if self.place == f"pulsing after {name}":
            while True:
                self.send(Pulse())
                time.sleep(0.1)

        if self.place == f"on and on after {name}":
            assert isinstance(message, Unit)
            for second in range(message.second + 1, 1_000_000):
                times = {"start_ms": second * 1000, "end_ms": second * 1000 + 1000}
                super().send(replace(message, second=second, **times))
        if self.place == f"twice {name}":
            super().send(message)

    def pulse(self) -> None:
        """Called for every packet that is read."""
        if self.place == "scan":
            type(self).end()
        if self.place == "in pulse":
            self.send(Pulse())
        if self.place == "pulsing in scan":
            while True:
                self.send(Pulse())
                time.sleep(0.1)
        super().pulse()


def _name(message: Message) -> str:
    match message:
        case Unit():
            return f"unit {message.second}"
        case Probe() | MediaEnd() | Pulse():
            return type(message).__name__.lower().replace("mediaend", "end")
        case _:
            return "other"


def main() -> None:
    place, how, argument = sys.argv[1:]
    HaltingPipe.place = place
    HaltingPipe.end = staticmethod(HOW[how])
    media._Pipe = HaltingPipe  # type: ignore[misc]
    if place == "start":
        HaltingPipe.end()
    media.main(argument)
    os._exit(0)


if __name__ == "__main__":
    main()
