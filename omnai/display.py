"""How results look in a terminal: untrusted text made visible, tables, and source-time progress."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import rich.progress
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from pipeline.brief.visible import visible
from pipeline.clock import clock_text


def console() -> Console:
    """Standard output; without colour where it is no terminal."""
    return Console(highlight=False)


def say(*parts: str | Text) -> None:
    """One line on standard output; a terminal breaks it, not we."""
    console().print(*parts, sep="", soft_wrap=True, markup=False)


def warn(text: str) -> None:
    """One line on standard error."""
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("warning: ", "bold yellow"), text))


def seen(text: str) -> Text:
    """Text from a file, a person or the model: no markup, no control characters, one line."""
    return Text(" ".join(visible(text).split()))


def table(*columns: str) -> Table:
    """A plain table; give it Text for anything untrusted."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def write_json(value: Any) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file opened under a bar over its bytes, on standard error where that is a terminal."""
    console = Console(stderr=True)
    with rich.progress.open(
        path,
        "rb",
        description="reading",
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as file:
        yield file


def moment(at: str) -> str:
    """A time of the API by this machine's clocks, to the minute."""
    # Later Pythons read a Z; 3.10 does not.
    local = datetime.fromisoformat(at.replace("Z", "+00:00")).astimezone()
    return local.strftime("%Y-%m-%d %H:%M")


def clock(seconds: float) -> str:
    """A source time as people read it."""
    return clock_text(round(seconds * 1000))


class BytesProgress:
    """A bar over bytes on standard error; silent where that is no terminal."""

    def __init__(self, what: str, size_bytes: int) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(what, total=size_bytes)

    def __enter__(self) -> BytesProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, size_bytes: int) -> None:
        self._progress.advance(self._task, size_bytes)


class _SourceTime(ProgressColumn):
    def render(self, task: Task) -> Text:
        done = clock_text(int(task.completed))
        return Text(done if task.total is None else f"{done} of {clock_text(int(task.total))}")


class _Realtime(ProgressColumn):
    def render(self, task: Task) -> Text:
        elapsed_s = task.elapsed or 0.0
        if elapsed_s <= 0 or task.completed <= 0:
            return Text("")
        return Text(f"{task.completed / 1000 / elapsed_s:.1f}× realtime")


class _TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        elapsed_s = task.elapsed or 0.0
        if not task.total or not task.completed or elapsed_s <= 0:
            return Text("")
        left_s = elapsed_s * (task.total - task.completed) / task.completed
        return Text(f"{clock_text(int(max(left_s, 0) * 1000))} left")


class SourceProgress:
    """A bar over source time on standard error; silent where that is no terminal."""

    def __init__(self, what: str) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            _SourceTime(),
            _Realtime(),
            _TimeLeft(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(what, total=None)
        self._began = time.monotonic()
        self._source_ms = 0

    def __enter__(self) -> SourceProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def reach(self, source_ms: int, source_end_ms: int | None) -> None:
        """The bar never claims to be past its end, which packet time stamps only estimate."""
        self._source_ms = source_ms
        total = None if source_end_ms is None else max(source_end_ms, source_ms)
        self._progress.update(self._task, completed=source_ms, total=total)

    @property
    def times_realtime(self) -> float:
        """Source time over wall time so far."""
        return self._source_ms / 1000 / max(time.monotonic() - self._began, 1e-9)
