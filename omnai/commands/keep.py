"""`omnai jobs delete` and `omnai jobs keep`: how long a job stays."""

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
