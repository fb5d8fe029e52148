"""`omnai watch`: submits what appears in a folder, as a client of the API."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from omnai import display
from omnai.asked import AudioStream, VideoStream
from omnai.commands.jobs import connected, read_holdings
from omnai.exits import Exit, refusals
from omnai.interrupts import Interrupted, Interrupts
from omnai.watched import memory
from omnai.watched.submitting import Ask
from omnai.watched.watcher import FolderWatcher
from pipeline.errors import InputRefused, Problem

SETTLE_S = 30.0
"""A meeting's recorder and a copy over a slow network write every few seconds."""

LOOK_S = 5.0
"""Between two looks at the folder; a share is asked for its list each time."""


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where recordings appear.", show_default=False)
    ],
    portfolio: Annotated[Path, typer.Option(help="Holdings, as JSON or CSV.", show_default=False)],
    objective: Annotated[
        str, typer.Option(help="What the briefs should look for.", show_default=False)
    ],
    engine: Annotated[str | None, typer.Option(help="The API's own choice otherwise.")] = None,
    start_s: Annotated[int, typer.Option(min=0, help="First source second.")] = 0,
    audio_stream: AudioStream = None,
    video_stream: VideoStream = None,
    settle_s: Annotated[
        float,
        typer.Option(min=0.1, help="A file is finished once it has not changed for so long."),
    ] = SETTLE_S,
    json_: Annotated[bool, typer.Option("--json", help="One JSON line for each event.")] = False,
) -> None:
    """Submit each recording that is finished in a folder, once, until Ctrl-C.

    What became of each is kept in the folder, in .omnai-watch.json.
    """
    options = {"start_s": start_s, "audio_stream": audio_stream, "video_stream": video_stream}
    request = {"objective": objective, "engine": engine, "options": options}
    with (
        refusals(as_json=json_),
        Interrupts() as interrupts,
        _held(folder),
        connected() as client,
        suppress(Interrupted),
        interrupts.taken(),
    ):
        read_holdings(portfolio)  # what is wrong with it is said now and not at night
        watcher = FolderWatcher(
            folder,
            client=client,
            ask=Ask(
                holdings=lambda: read_holdings(portfolio),
                request={name: value for name, value in request.items() if value is not None},
            ),
            settle_s=settle_s,
            tell=_Teller(as_json=json_),
        )
        while True:
            watcher.look()
            time.sleep(min(LOOK_S, settle_s / 4))
    raise typer.Exit(Exit.DONE)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(memory.held(folder))
        except OSError as error:
            message = f"nothing can be written there ({error.strerror}); give a folder of your own"
            raise InputRefused(
                Problem(code="folder_unwritable", where=str(folder), message=message)
            ) from error
        yield


class _Teller:
    """Says what happened on standard output, for a person or a program."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(
        self, event: str, text: str, *, name: str | None = None, job_id: str | None = None
    ) -> None:
        if self._as_json:
            told = {"event": event, "file": name, "job_id": job_id, "message": text}
            display.write_json({key: _writable(value) for key, value in told.items()})
        else:
            display.say(display.seen(_writable(text) or ""))


def _writable(text: str | None) -> str | None:
    """A file's name need not be text in any encoding."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
