"""`omnai submit`, `omnai jobs` and `omnai brief`: a client of the API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from omnai import display
from omnai.asked import AudioStream, VideoStream
from omnai.client import Client
from omnai.exits import Exit, refusals
from pipeline.errors import InputRefused, Problem
from pipeline.files import writing_whole
from pipeline.records import JobState
from pipeline.settings import Settings

app = typer.Typer(help="Jobs of a running OmnAI.", no_args_is_help=True)

UNKNOWN = {
    "queue_paused": "the queue is paused",
    "nothing_measured": "this installation has not run enough of its engine yet",
    "no_worker": "no worker is ready for its engine",
    "length_unknown": "the length of its recording is not known",
    "ahead_unknown": "how long the jobs before it take is not known",
    "recording_awaited": "its recording is not here yet",
}
"""By the API's word for why."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


def submit(
    file: Annotated[Path, typer.Argument(help="The recording.", show_default=False)],
    portfolio: Annotated[Path, typer.Option(help="Holdings, as JSON or CSV.", show_default=False)],
    objective: Annotated[
        str, typer.Option(help="What the brief should look for.", show_default=False)
    ],
    title: Annotated[str | None, typer.Option(help="Name of the event.")] = None,
    event_date: Annotated[str | None, typer.Option(help="Its day, YYYY-MM-DD.")] = None,
    engine: Annotated[str | None, typer.Option(help="The API's own choice otherwise.")] = None,
    start_s: Annotated[int, typer.Option(help="First source second.")] = 0,
    audio_stream: AudioStream = None,
    video_stream: VideoStream = None,
    priority: Annotated[
        int | None, typer.Option(help="Smaller goes first, 0 otherwise; below 0 for admins.")
    ] = None,
    not_before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin no earlier; as 2026-03-31T19:30:00+02:00."),
    ] = None,
    ready_by: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When the brief is wanted, with its offset too."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Watch it until it ends.")] = False,
    json_: AsJson = False,
) -> None:
    """Send a recording to a running OmnAI and ask for a brief."""
    with refusals(as_json=json_), connected() as client:
        job = send(
            client,
            file,
            portfolio,
            {
                "objective": objective,
                "title": title,
                "event_date": event_date,
                "engine": engine,
                "options": {
                    "start_s": start_s,
                    "audio_stream": audio_stream,
                    "video_stream": video_stream,
                },
                "priority": priority,
                "not_before": not_before,
                "ready_by": ready_by,
            },
        )
        forecast = job["forecast"]
        if forecast is not None and not json_:
            display.say(told_forecast(forecast))
        if wait:
            job = follow(client, job["id"])
        _show(job, as_json=json_)
    raise typer.Exit(status_of(job) if wait else Exit.DONE)


@app.command("list")
def listed(
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 30,
    json_: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with refusals(as_json=json_), connected() as client:
        found = client.jobs(state=None if state is None else state.value, limit=limit)
        if json_:
            display.write_json(found)
            return
        table = display.table("job", "state", "progress", "created", "title or file")
        for job in found:
            name = display.seen(job["title"] or job["filename"])
            created = str(job["created_at"])[:16].replace("T", " ")
            table.add_row(job["id"], job["state"], _progress(job), created, name)
        display.console().print(table)


@app.command()
def show(job_id: JobId, json_: AsJson = False) -> None:
    """Show one job."""
    with refusals(as_json=json_), connected() as client:
        _show(client.job(job_id), as_json=json_)


@app.command()
def cancel(job_id: JobId, json_: AsJson = False) -> None:
    """Ask a job to end; what was completed is kept."""
    with refusals(as_json=json_), connected() as client:
        answer = client.cancel(job_id)
        if json_:
            display.write_json(answer)
        else:
            display.say(f"{answer['id']} is {answer['state']}")


@app.command()
def rerun(
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="Why; it is kept.", show_default=False)],
    start: Annotated[
        str, typer.Option("--from", help="start, last_completed, or a source second.")
    ] = "last_completed",
    json_: AsJson = False,
) -> None:
    """Run an ended job again, from a point of its recording; for admins."""
    with refusals(as_json=json_), connected() as client:
        given: str | int = int(start) if start.isdecimal() else start
        answer = client.rerun(job_id, start=given, reason=reason)
        if json_:
            display.write_json(answer)
        else:
            display.say(f"epoch {answer['epoch']} of {job_id} is queued")


def brief(
    job_id: JobId,
    form: Annotated[
        str,
        typer.Option("--format", help="json, md, html, pdf, docx, csv, xlsx, vtt, srt or zip."),
    ] = "md",
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; standard output otherwise.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="JOB", help="Also tell what changed against this job's brief."),
    ] = None,
) -> None:
    """Fetch a job's brief as it stands."""
    with refusals(as_json=False), connected() as client:
        if out is None:
            client.write_brief(job_id, form, sys.stdout.buffer.write, against=against)
            return
        with writing_whole(out) as file:
            client.write_brief(job_id, form, file.write, against=against)
        display.say(display.seen(str(out)))


def connected() -> Client:
    """A client by the settings; InputRefused without a key."""
    settings = Settings.from_environment()
    if settings.api_key is None:
        raise InputRefused(
            Problem(
                code="api_key_missing",
                where="OMNAI_API_KEY",
                message="no key is set; `omnai keys create OWNER` makes one",
            )
        )
    return Client(settings.api_url, settings.api_key)


def send(client: Client, file: Path, portfolio: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Upload, then submit; the API checks both."""
    holdings = read_holdings(portfolio)
    try:
        size = file.stat().st_size
        with display.BytesProgress("sending", size) as progress:
            recording = client.upload(file, progress.advance)
    except OSError as error:
        raise _unreadable("recording", file, error) from error
    given = {name: value for name, value in request.items() if value is not None}
    return client.submit({"recording_id": recording["id"], "portfolio": holdings, **given})


def follow(client: Client, job_id: str) -> dict[str, Any]:
    """Show a job's progress until it ends; returns it then."""
    job: dict[str, Any] = {}
    with display.SourceProgress("watching") as progress:
        for job in client.watch(job_id):
            total_s = job["progress"]["total_s"]
            progress.reach(
                round(job["progress"]["done_s"] * 1000),
                None if total_s is None else round(total_s * 1000),
            )
    return job


def told_forecast(forecast: dict[str, Any]) -> str:
    """Whether a job will be ready in time, as one line."""
    if forecast["makes_it"] is None:
        return f"whether it will be ready in time is not known: {UNKNOWN[forecast['unknown']]}"
    end = display.moment(forecast["expected_end_at"])
    word = "" if forecast["makes_it"] else "not "
    cut = ", cut short by the night's end" if forecast["is_cut"] else ""
    speed = forecast["pace"]["times_realtime"]
    return f"it will {word}be ready in time: its end is expected {end}{cut} ({speed}× realtime)"


def status_of(job: dict[str, Any]) -> Exit:
    """As `omnai analyze` ends: what was completed before another end is a part."""
    if job["state"] == JobState.SUCCEEDED.value:
        return Exit.DONE
    return Exit.PARTIAL if job["progress"]["done_s"] > 0 else Exit.FAULT


def read_holdings(path: Path) -> list[dict[str, Any]]:
    """Read here, so that any encoding that a person's file has is understood."""
    from pipeline.portfolio import FILE_BYTES_MAX, read_portfolio

    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable("portfolio", path, error) from error
    portfolio = read_portfolio(data, filename=path.name)
    return [
        {
            "id": holding.id,
            "name": holding.name,
            "ticker": holding.ticker,
            "exchange": holding.exchange,
            "currency": holding.currency,
            "asset_type": holding.asset_type,
            "weight_pct": str(holding.weight_pct),
            "aliases": list(holding.aliases),
        }
        for holding in portfolio.holdings
    ]


def _unreadable(what: str, path: Path, error: OSError) -> InputRefused:
    message = f"it cannot be read ({error.strerror}); give the path of a file you may read"
    return InputRefused(Problem(code=f"{what}_unreadable", where=f"{what} {path}", message=message))


def _show(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        display.write_json(job)
        return
    display.say(display.seen(f"{job['id']} {job['title'] or job['filename']}"))
    ended = f" ({job['end_reason']})" if job["end_reason"] else ""
    display.say(display.seen(f"{job['state']}{ended}, {_progress(job)}"))
    if job["end_detail"]:
        display.say(display.seen(job["end_detail"]))


def _progress(job: dict[str, Any]) -> str:
    done = display.clock(job["progress"]["done_s"])
    total_s = job["progress"]["total_s"]
    return done if total_s is None else f"{done} of {display.clock(total_s)}"
