"""`omnai recordings`: list recordings, and put one under legal hold."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from omnai import display
from omnai.commands.jobs import AsJson, connected
from omnai.exits import refusals

app = typer.Typer(help="Recordings of a running OmnAI.", no_args_is_help=True)

RecordingId = Annotated[str, typer.Argument(metavar="RECORDING", help="The recording's id.")]


@app.command("list")
def listed(
    held: Annotated[bool, typer.Option("--held", help="Only those under legal hold.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 30,
    json_: AsJson = False,
) -> None:
    """List recordings, newest first: one's own, and for an admin everybody's."""
    with refusals(as_json=json_), connected() as client:
        found = client.recordings(is_held=held, limit=limit)
        if json_:
            display.write_json(found)
            return
        table = display.table("recording", "owner", "uploaded", "held since", "kept until", "file")
        for recording in found:
            table.add_row(
                recording["id"],
                display.seen(recording["owner"]),
                *(_time(recording[name]) for name in ("created_at", "held_at", "keep_until")),
                display.seen(recording["filename"]),
            )
        display.console().print(table)


@app.command()
def hold(recording_id: RecordingId, json_: AsJson = False) -> None:
    """Put a recording under legal hold: nobody can delete it or a job about it. For admins."""
    _hold(recording_id, is_held=True, as_json=json_)


@app.command()
def release(recording_id: RecordingId, json_: AsJson = False) -> None:
    """End a recording's legal hold. For admins."""
    _hold(recording_id, is_held=False, as_json=json_)


def _hold(recording_id: str, *, is_held: bool, as_json: bool) -> None:
    with refusals(as_json=as_json), connected() as client:
        recording = client.hold_recording(recording_id, is_held=is_held)
        if as_json:
            display.write_json(recording)
        else:
            display.say(display.seen(_told(recording)))


def _told(recording: dict[str, Any]) -> str:
    if recording["held_at"] is None:
        return f"{recording['id']} is no longer under legal hold"
    since = display.moment(recording["held_at"])
    return f"{recording['id']} has been under legal hold since {since}; its jobs are held with it"


def _time(at: str | None) -> Text:
    return Text("" if at is None else display.moment(at))
