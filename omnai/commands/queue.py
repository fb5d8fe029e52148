"""`omnai queue`: what runs, what waits and when it will run; pause, drain and resume."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.text import Text

from omnai import display
from omnai.client import Client
from omnai.commands.jobs import AsJson, connected
from omnai.exits import Exit, refusals

POLL_S = 2.0

DRAIN_S = 12 * 3600
"""As long as the longest recording that is accepted by default."""

SHORT = {
    "queue_paused": "paused",
    "nothing_measured": "pace not known",
    "no_worker": "no worker",
    "length_unknown": "length not known",
    "ahead_unknown": "not known",
}
"""What stands in the place of a time, by the API's word for why."""

app = typer.Typer(help="What runs, what waits, and when it will run.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def show(context: typer.Context, json_: AsJson = False) -> None:
    """Show the queue: one's own jobs, and for an admin everybody's."""
    if context.invoked_subcommand is not None:
        return
    with refusals(as_json=json_), connected() as client:
        found = client.queue()
        if json_:
            display.write_json(found)
            return
        display.say(_headline(found))
        if found["jobs"]:
            display.console().print(_table(found["jobs"]))


@app.command()
def pause(json_: AsJson = False) -> None:
    """Begin nothing more; what runs goes on. For admins."""
    with refusals(as_json=json_), connected() as client:
        _tell(client.set_queue("pause"), "paused: nothing more is begun", as_json=json_)


@app.command()
def resume(json_: AsJson = False) -> None:
    """Begin queued jobs again. For admins."""
    with refusals(as_json=json_), connected() as client:
        _tell(client.set_queue("resume"), "open: queued jobs are begun", as_json=json_)


@app.command()
def drain(
    wait: Annotated[
        int, typer.Option(min=0, help="Seconds to wait at most until nothing runs.")
    ] = DRAIN_S,
    json_: AsJson = False,
) -> None:
    """Begin nothing more and wait until nothing runs; `resume` opens the queue again. For admins.

    The exit status is 0 once nothing runs and 3 where something still does after --wait.
    """
    with refusals(as_json=json_), connected() as client:
        state = _drained(client, client.set_queue("drain"), wait)
        if json_:
            display.write_json(state)
        elif state["state"] == "open":
            display.say("the queue was opened again while this waited")
        elif state["running"]:
            display.say(f"still running: {state['running']}; nothing more is begun")
        else:
            display.say("drained: nothing runs, and nothing more is begun")
    is_drained = state["state"] != "open" and not state["running"]
    raise typer.Exit(Exit.DONE if is_drained else Exit.PARTIAL)


def _drained(client: Client, state: dict[str, Any], wait_s: float) -> dict[str, Any]:
    """The queue's state once nothing runs, somebody opened it, or the time is over."""
    deadline = time.monotonic() + wait_s
    while state["running"] and state["state"] != "open":
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        time.sleep(min(POLL_S, left_s))
        state = client.queue()["queue"]
    return state


def _tell(state: dict[str, Any], said: str, *, as_json: bool) -> None:
    if as_json:
        display.write_json(state)
    else:
        display.say(f"the queue is {said}; running: {state['running']}")


def _headline(found: dict[str, Any]) -> str:
    state = found["queue"]
    parts = [
        f"the queue is {state['state']}",
        f"running: {state['running']}",
        f"queued: {found['queued']}",
    ]
    if found["awaited"]:
        parts.append(f"waiting for their recordings: {found['awaited']}")
    night = found["night"]
    if night is not None:
        edge = "closes" if night["is_open"] else "opens"
        at = display.moment(night["closes_at" if night["is_open"] else "opens_at"])
        parts.append(f"the window {night['window']} ({night['zone']}) {edge} {at}")
    return "; ".join(parts)


def _table(jobs: list[dict[str, Any]]) -> Any:
    table = display.table(
        "place", "job", "title or file", "state", "begins", "ends", "wanted by", ""
    )
    for job in jobs:
        table.add_row(
            "" if job["position"] is None else str(job["position"]),
            job["job_id"],
            display.seen(job["title"] or job["filename"]),
            job["state"],
            _time(job["expected_start_at"], job),
            _time(job["expected_end_at"], job),
            "" if job["ready_by"] is None else display.moment(job["ready_by"]),
            _mark(job),
        )
    return table


def _time(at: str | None, job: dict[str, Any]) -> str:
    return SHORT.get(job["unknown"], "not known") if at is None else display.moment(at)


def _mark(job: dict[str, Any]) -> Text:
    if job["is_late"]:
        return Text("late", style="bold red")
    return Text("cut short" if job["is_cut"] else "")
