"""`omnai search` and `omnai note`: findings of a running OmnAI."""

from __future__ import annotations

from typing import Annotated

import typer

from omnai import display
from omnai.commands.jobs import AsJson, JobId, connected
from omnai.exits import refusals
from pipeline.errors import InputRefused, Problem
from pipeline.records import JobState, NoteAction, NoteState

SHOWN_CHARS = 200
"""Of what was observed, in a table; all of it is in the JSON."""


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help='Words, "a phrase", -without, this OR that; after -- where one begins with a dash.'
        ),
    ] = None,
    holding: Annotated[str | None, typer.Option(help="Its id, ticker or name.")] = None,
    state: Annotated[NoteState | None, typer.Option(help="What people made of it.")] = None,
    job_state: Annotated[JobState | None, typer.Option(help="Only of jobs in this state.")] = None,
    submitted_from: Annotated[
        str | None, typer.Option("--from", help="First day of submission, YYYY-MM-DD.")
    ] = None,
    submitted_to: Annotated[
        str | None, typer.Option("--to", help="Last day of submission, YYYY-MM-DD.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 30,
    json_: AsJson = False,
) -> None:
    """Search the findings of all jobs, those of the newest job first."""
    given = {
        "text": " ".join(words or ()) or None,
        "holding": holding,
        "state": None if state is None else state.value,
        "job_state": None if job_state is None else job_state.value,
        "submitted_from": submitted_from,
        "submitted_to": submitted_to,
    }
    filters = {name: value for name, value in given.items() if value is not None}
    with refusals(as_json=json_), connected() as client:
        found = client.search(filters, limit=limit)
        if json_:
            display.write_json(found)
            return
        table = display.table("job", "finding", "moment", "state", "holdings", "observed")
        for hit in found:
            table.add_row(
                hit["job_id"],
                hit["key"],
                display.clock(hit["generated_start_ms"] / 1000),
                hit["state"],
                display.seen(", ".join(holding["name"] for holding in hit["holdings"])),
                display.seen(hit["evidence"][:SHOWN_CHARS]),
            )
        display.console().print(table)


def note(
    job_id: JobId,
    key: Annotated[str, typer.Argument(help="The finding's key, such as 1.0.0.")],
    accept: Annotated[bool, typer.Option("--accept", help="It holds.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="It does not.")] = False,
    done: Annotated[bool, typer.Option("--done", help="What it asked to verify is done.")] = False,
    text: Annotated[str, typer.Option(help="What there is to say; needed without a flag.")] = "",
    json_: AsJson = False,
) -> None:
    """Note something about a finding; it is kept as a log, and the brief shows it."""
    with refusals(as_json=json_):
        action = _action(accept=accept, reject=reject, done=done)
        with connected() as client:
            written = client.note(job_id, key, action=action.value, text=text)
        if json_:
            display.write_json(written)
        else:
            display.say(display.seen(f"note {written['number']} on {key}: {written['action']}"))


def _action(*, accept: bool, reject: bool, done: bool) -> NoteAction:
    asked = [
        action
        for action, is_asked in (
            (NoteAction.ACCEPT, accept),
            (NoteAction.REJECT, reject),
            (NoteAction.DONE, done),
        )
        if is_asked
    ]
    if len(asked) > 1:
        message = "give one of --accept, --reject and --done, or none for a plain note"
        raise InputRefused(Problem(code="action_ambiguous", where="", message=message))
    return asked[0] if asked else NoteAction.NOTE
