"""What a command's exit status means, and how a refusal reaches whoever asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer
from rich.console import Console
from rich.text import Text

from pipeline.errors import InputRefused, MediaStopped, OmnaiError, Problem, RecordingRefused


class Exit(IntEnum):
    """The statuses that scripts may rely on."""

    DONE = 0
    """Also where the recording is damaged, as long as every readable second was fed."""
    FAULT = 1
    """A fault of OmnAI's own or of the services it needs."""
    BAD_INPUT = 2
    """Nothing was analysed; the message says what would be accepted."""
    PARTIAL = 3
    """What was completed before the end is kept and shown."""


@contextmanager
def refusals(*, as_json: bool) -> Iterator[None]:
    """Turn OmnAI's errors into a message on standard error and the right exit status."""
    try:
        yield
    except InputRefused as refused:
        _tell(refused.code, list(refused.problems), as_json=as_json)
        raise typer.Exit(Exit.BAD_INPUT) from refused
    except (RecordingRefused, MediaStopped) as refused:
        _tell(refused.code, [_problem(refused)], as_json=as_json)
        is_partial = isinstance(refused, MediaStopped) and refused.last_source_ms is not None
        raise typer.Exit(Exit.PARTIAL if is_partial else Exit.BAD_INPUT) from refused
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        problem = Problem(code="os_error", where="", message=f"{error.strerror or error}{where}")
        _tell(problem.code, [problem], as_json=as_json)
        raise typer.Exit(Exit.FAULT) from error
    except OmnaiError as error:
        _tell(error.code, [_problem(error)], as_json=as_json)
        raise typer.Exit(Exit.FAULT) from error


def _problem(error: OmnaiError) -> Problem:
    return Problem(code=error.code, where="", message=error.message)


def _tell(code: str, problems: list[Problem], *, as_json: bool) -> None:
    if as_json:
        listed = [{"code": p.code, "where": p.where, "message": p.message} for p in problems]
        sys.stderr.write(json.dumps({"error": code, "problems": listed}) + "\n")
        return
    console = Console(stderr=True, soft_wrap=True)
    for problem in problems:
        where = f"{problem.where}: " if problem.where else ""
        console.print(Text.assemble(("error: ", "bold red"), where, problem.message))
