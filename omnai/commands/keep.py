"""`omnai jobs delete`, `keep`, `hold` and `release`: how long a job stays."""

from __future__ import annotations

from typing import Annotated

import typer

from omnai import display
from omnai.commands.jobs import AsJson, JobId, connected
from omnai.exits import refusals


def delete(job_id: JobId, json_: AsJson = False) -> None:
    """Delete an ended job with all that it found; there is no way back."""
    with refusals(as_json=json_), connected() as client:
        client.delete_job(job_id)
        if json_:
            display.write_json({"id": job_id, "is_deleted": True})
        else:
            display.say(display.seen(f"{job_id} is deleted"))


def keep(
    job_id: JobId,
    until: Annotated[
        str | None,
        typer.Option(help="A time with its zone, as 2027-01-31T18:00:00Z; as set up otherwise."),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Say until when a job is kept."""
    with refusals(as_json=json_), connected() as client:
        job = client.keep_job(job_id, until=until)
        if json_:
            display.write_json(job)
        else:
            told = job["keep_until"] or "as long as the installation keeps jobs"
            display.say(display.seen(f"{job_id} is kept until {told}"))


def hold(job_id: JobId, json_: AsJson = False) -> None:
    """Put a job under legal hold: nobody can delete it or its recording. For admins."""
    _hold(job_id, is_held=True, as_json=json_)


def release(job_id: JobId, json_: AsJson = False) -> None:
    """End a job's legal hold. For admins."""
    _hold(job_id, is_held=False, as_json=json_)


def _hold(job_id: str, *, is_held: bool, as_json: bool) -> None:
    with refusals(as_json=as_json), connected() as client:
        job = client.hold_job(job_id, is_held=is_held)
        if as_json:
            display.write_json(job)
        else:
            told = "under legal hold" if is_held else "no longer under legal hold"
            display.say(display.seen(f"{job_id} is {told}"))
