"""`omnai night`: what is done in the morning, in part, failed or late, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from omnai import display
from omnai.commands.jobs import AsJson, connected
from omnai.exits import refusals

COUNTS = ("done", "partial", "failed", "canceled", "running", "waiting")

Time = Annotated[
    str | None, typer.Option(metavar="TIME", help="With its offset, 2026-03-31T19:30:00+02:00.")
]


def night(since: Time = None, until: Time = None, json_: AsJson = False) -> None:
    """Report the last night: since its window opened, or the last 24 hours, until now."""
    with refusals(as_json=json_), connected() as client:
        report = client.night(since=since, until=until)
        if json_:
            display.write_json(report)
            return
        display.say(_headline(report))
        if report["jobs"]:
            display.console().print(_table(report["jobs"]))
        if report["left_out"]:
            display.say(f"{report['left_out']} more are left out; ask for a shorter time")


def _headline(report: dict[str, Any]) -> str:
    counts = [f"{name}: {report['counts'][name]}" for name in COUNTS]
    span = f"{display.moment(report['since'])} to {display.moment(report['until'])}"
    return f"{span}; {'; '.join(counts)}; late: {report['late']}"


def _table(jobs: list[dict[str, Any]]) -> Any:
    table = display.table("job", "title or file", "came to", "ended", "watched", "worked", "why")
    for job in jobs:
        table.add_row(
            job["job_id"],
            display.seen(job["title"] or job["filename"]),
            _outcome(job),
            "" if job["ended_at"] is None else display.moment(job["ended_at"]),
            display.clock(job["watched_s"]),
            display.clock(job["worked_s"]),
            display.seen(job["reason"] or ""),
        )
    return table


def _outcome(job: dict[str, Any]) -> Text:
    late = Text(", late", style="bold red") if job["is_late"] else Text("")
    return Text.assemble(job["outcome"], late)
