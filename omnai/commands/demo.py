"""`omnai demo`: the whole product on one machine, used as a client would use it."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer

from omnai import display
from omnai.client import ENDED, Client
from omnai.commands import jobs
from omnai.exits import Exit, refusals
from omnai.interrupts import Interrupted, Interrupts
from omnai.processes import Child, api_command, environment, ingest_command, worker_command
from omnai.stores import ready
from pipeline.errors import OmnaiError
from pipeline.ledger import jobs as ledger
from pipeline.ledger import keys
from pipeline.ledger.database import Database, connect
from pipeline.ledger.keys import Key, Role
from pipeline.records import JobState
from pipeline.settings import Settings

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
OBJECTIVE = "Which moments of this presentation matter to the holdings, and when?"
ENGINE = "rehearsal"
FORMS = ("html", "md", "json")

LOGS = "logs"
"""Under the data folder: what the API and the worker say."""

READY_S = 60.0
POLL_S = 0.1
WATCH_S = 0.3
LINE_S = 5.0
GRACEFUL_S = 3
"""A browser's waiting request is no reason to keep the terminal waiting."""
KEY_LIFE = timedelta(hours=12)
SIGN_IN_S = 12 * 3600


class DemoFailed(OmnaiError):
    """The API or the worker does not run."""

    code = "demo_failed"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the briefs.")] = Path("var/demo"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running for a browser, until Ctrl-C.")
    ] = False,
) -> None:
    """Start everything, submit the shipped sample over HTTP, and show what came of it."""
    status = Exit.DONE.value
    with refusals(as_json=False), Interrupts() as interrupts:
        display.say("starting PostgreSQL, Valkey, the API and a worker")
        try:
            with ready(Settings.from_environment()) as settings:
                status = _run(_own(settings), interrupts, out, keep=keep)
        except Interrupted as interrupted:
            display.say("interrupted; everything that was started has ended")
            status = interrupted.status
    raise typer.Exit(status)


def _run(settings: Settings, interrupts: Interrupts, out: Path, *, keep: bool) -> int:
    url = f"http://{settings.bind}"
    with _key(settings) as (database, key, secret), ExitStack() as started:
        processes = _start(settings, started)
        with _naming_logs(processes), Client(url, secret) as client:
            with interrupts.taken():
                _await_ready(url, processes)
                _tell_link(database, key, url)
            # Not to be left in between: a job of which nobody has heard would wait for ever.
            job = _submit(client)
            with _canceled_unless_ended(database, job["id"]), interrupts.taken():
                job = _follow(client, job["id"], processes)
                _show(client, job, out)
            if keep:
                _keep(database, key, url, interrupts, processes)
            else:
                display.say("all of it ends now; with --keep it goes on for a browser")
    if job["state"] != JobState.SUCCEEDED.value:
        _name_logs(processes)
    return jobs.status_of(job)


def _start(settings: Settings, started: ExitStack) -> tuple[Child, ...]:
    """All at once; at the end all are told to go before any is waited for. Links are fetched only
    where the settings allow it."""
    variables, logs = environment(settings), settings.data_dir / LOGS
    api_log = logs / f"api-{settings.bind.rpartition(':')[2]}.log"
    api = Child("API", api_command(settings, graceful_s=GRACEFUL_S), variables, log=api_log)
    started.enter_context(api)
    worker_log = logs / f"worker-{settings.slot}.log"
    worker = started.enter_context(Child("worker", worker_command(), variables, log=worker_log))
    processes = [api, worker]
    if settings.fetch_urls:
        log = logs / "ingest.log"
        processes.append(Child("ingest", ingest_command(), variables, log=log))
        started.enter_context(processes[-1])
    for process in processes:
        started.callback(process.ask_to_end)
    return tuple(processes)


def _submit(client: Client) -> dict[str, Any]:
    sample = SAMPLES / "sample.mp4"
    job = jobs.send(
        client,
        sample,
        SAMPLES / "portfolio.json",
        {"objective": OBJECTIVE, "title": "The shipped sample", "engine": ENGINE},
    )
    display.say(f"submitted {sample.name} as job {job['id']}")
    return job


def _follow(client: Client, job_id: str, processes: Sequence[Child]) -> dict[str, Any]:
    """Until the job ends; a worker that is gone would never end it."""
    shown = _Shown()
    with display.SourceProgress("watching") as progress:
        while True:
            job = client.job(job_id)
            done_s, total_s = job["progress"]["done_s"], job["progress"]["total_s"]
            progress.reach(round(done_s * 1000), None if total_s is None else round(total_s * 1000))
            if job["state"] in ENDED:
                return job
            shown.tell(job)
            _check(processes)
            time.sleep(WATCH_S)


class _Shown:
    """Plain lines where no bar can be drawn: each state, and the progress every few seconds."""

    def __init__(self) -> None:
        self._last = ""
        self._at = 0.0

    def tell(self, job: dict[str, Any]) -> None:
        if sys.stderr.isatty():
            return
        state, done_s, total_s = job["state"], job["progress"]["done_s"], job["progress"]["total_s"]
        is_silent = done_s == 0 or time.monotonic() < self._at + LINE_S
        if state == self._last and is_silent:
            return
        of = "" if total_s is None else f" of {display.clock(total_s)}"
        display.say(f"{state}, {display.clock(done_s)}{of}" if done_s else state)
        self._last, self._at = state, time.monotonic()


def _keep(
    database: Database,
    key: Key,
    url: str,
    interrupts: Interrupts,
    processes: Sequence[Child],
) -> None:
    """Until somebody asks for the end, which is how this is meant to end."""
    display.say("it keeps running; Ctrl-C ends it and leaves nothing behind")
    _tell_link(database, key, url)
    with suppress(Interrupted), interrupts.taken():
        while True:
            _check(processes)
            time.sleep(WATCH_S)
    display.say("ending")


def _show(client: Client, job: dict[str, Any], out: Path) -> None:
    found = client.findings(job["id"])["findings"]
    of_source = f"{len(found)} findings in {display.clock(job['progress']['done_s'])}"
    ended = f" ({job['end_reason']})" if job["state"] != JobState.SUCCEEDED.value else ""
    display.say(display.seen(f"{job['state']}{ended}: {of_source}"))
    table = display.table("moment", "holdings", "observed")
    for finding in found:
        source = finding["source"]
        start, end = source["generated_start_ms"] / 1000, source["generated_end_ms"] / 1000
        moment = f"{display.clock(start)}–{display.clock(end)}"
        holdings = ", ".join(finding["holding_ids"])
        table.add_row(moment, display.seen(holdings), display.seen(finding["evidence"]))
    if found:
        display.console().print(table)
    out.mkdir(parents=True, exist_ok=True)
    for form in FORMS:
        path = out / f"brief.{form}"
        path.write_bytes(client.brief(job["id"], form))
        display.say(f"brief.{form}: ", display.seen(str(path)))


@contextmanager
def _key(settings: Settings) -> Iterator[tuple[Database, Key, str]]:
    """A key for this run alone."""
    assert settings.database_url is not None
    database = connect(settings.database_url)
    try:
        key, secret = keys.create(
            database,
            owner="demo",
            role=Role.ADMIN,
            label="demo",
            expires_at=datetime.now(timezone.utc) + KEY_LIFE,
        )
        try:
            yield database, key, secret
        finally:
            keys.revoke(database, key.id)
    finally:
        database.dispose()


def _tell_link(database: Database, key: Key, url: str) -> None:
    token = keys.make_sign_in(database, key.id, lifetime_s=SIGN_IN_S)
    display.say(
        f"a browser can watch it here (the link works once): {url}/sign-in?token={quote(token)}"
    )


def _own(settings: Settings) -> Settings:
    """The settings' own port and slot, or others where somebody has those; the demo's engine."""
    from worker import slot

    host, _, port = settings.bind.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            probe.bind((host, 0))
        bind = f"{host}:{probe.getsockname()[1]}"
    settings = replace(settings, bind=bind, engine=ENGINE)
    while slot.holder(settings, slot.SUPERVISOR) is not None:
        settings = replace(settings, slot=settings.slot + 1)
    return settings


def _await_ready(url: str, processes: Sequence[Child]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        _check(processes)
        try:
            if httpx.get(f"{url}/readyz", timeout=5, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(POLL_S)
    raise DemoFailed(f"the API was not ready within {READY_S:g} s")


def _check(processes: Sequence[Child]) -> None:
    for process in processes:
        if process.status is not None:
            raise DemoFailed(f"the {process.name} has ended with status {process.status}")


@contextmanager
def _canceled_unless_ended(database: Database, job_id: str) -> Iterator[None]:
    """Nobody waits for the job of a demo that was broken off, and the next one must not run it."""
    try:
        yield
    except BaseException:
        with suppress(OmnaiError):
            ledger.request_cancel(database, job_id)
        raise


@contextmanager
def _naming_logs(processes: Sequence[Child]) -> Iterator[None]:
    try:
        yield
    except OmnaiError:
        _name_logs(processes)
        raise


def _name_logs(processes: Sequence[Child]) -> None:
    for process in processes:
        display.warn(f"what the {process.name} said: {process.log}")
