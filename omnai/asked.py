"""What `omnai analyze` was asked, checked as a whole before anything is written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from pipeline.errors import InputRefused, Problem
from pipeline.portfolio import FILE_BYTES_MAX, Portfolio, read_portfolio
from pipeline.records import Request

Checked = TypeVar("Checked")

AudioStream = Annotated[
    int | None,
    typer.Option(min=0, help="Index of the sound in the file; chosen by OmnAI otherwise."),
]
VideoStream = Annotated[
    int | None,
    typer.Option(min=0, help="Index of the picture in the file; chosen by OmnAI otherwise."),
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Everything the command line asks for, checked."""

    file: Path
    portfolio: Portfolio
    request: Request
    out: Path


def check(file: Path, portfolio: Path, out: Path, build: Callable[[], Request]) -> Asked:
    """Everything wrong with the input at once, before anything is written."""
    problems: list[Problem] = []

    def tried(check: Callable[[], Checked]) -> Checked | None:
        try:
            return check()
        except InputRefused as refused:
            problems.extend(refused.problems)
            return None

    holdings = tried(lambda: _read_portfolio(portfolio))
    request = tried(build)
    tried(lambda: _check_recording(file))
    tried(lambda: _check_out(out))
    if problems or holdings is None or request is None:
        raise InputRefused(*problems)
    return Asked(file=file, portfolio=holdings, request=request, out=out)


def _read_portfolio(path: Path) -> Portfolio:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable("portfolio", path, error) from error
    return read_portfolio(data, filename=path.name)


def _check_recording(path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise _unreadable("recording", path, error) from error


def _check_out(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"no file can be written there ({error.strerror}); give a folder of your own"
        raise InputRefused(
            Problem(code="out_unwritable", where=f"out {folder}", message=message)
        ) from error


def _unreadable(what: str, path: Path, error: OSError) -> InputRefused:
    message = f"it cannot be read ({error.strerror}); give the path of a file you may read"
    return InputRefused(Problem(code=f"{what}_unreadable", where=f"{what} {path}", message=message))
