"""`omnai demo`: the whole product on one machine, used as a client would use it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer

from omnai import display
from omnai.client import Client
from omnai.commands import jobs
from omnai.exits import refusals
from omnai.processes import Child, api_command, environment, worker_command
from omnai.stores import ready
from pipeline.errors import OmnaiError
from pipeline.ledger import keys
from pipeline.ledger.database import Database, connect
from pipeline.ledger.keys import Key, Role
from pipeline.settings import Settings

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
OBJECTIVE = "Which moments of this presentation matter to the holdings, and when?"
FORMS = ("html", "md", "json")

READY_S = 60.0
POLL_S = 0.1
KEY_LIFE = timedelta(hours=12)
SIGN_IN_S = 12 * 3600


class DemoFailed(OmnaiError):
    """The API or the worker did not start; its output says why."""

    code = "demo_failed"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the briefs.")] = Path("var/demo"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running for a browser, until Ctrl-C.")
    ] = False,
) -> None:
    """Start everything, submit the shipped sample over HTTP, and show what came of it."""
    with refusals(as_json=False), ready(Settings.from_environment()) as settings:
        settings = _with_free_port(settings)
        url = f"http://{settings.bind}"
        with _key(settings) as (database, key, secret), ExitStack() as processes:
            variables = environment(settings)
            api = processes.enter_context(Child(api_command(settings), variables))
            worker = processes.enter_context(Child(worker_command(), variables))
            _await_ready(url, api, worker)
            _tell_link(database, key, url)
            with Client(url, secret) as client:
                job = _submit(client)
                _show(client, job, out)
            if keep:
                display.say("It keeps running; Ctrl-C ends it and leaves nothing behind.")
                _tell_link(database, key, url)
                api.wait()
    raise typer.Exit(jobs.status_of(job))


def _submit(client: Client) -> dict[str, Any]:
    job = jobs.send(
        client,
        SAMPLES / "sample.mp4",
        SAMPLES / "portfolio.json",
        {"objective": OBJECTIVE, "title": "The shipped sample", "engine": "rehearsal"},
    )
    display.say(f"submitted as job {job['id']}")
    return jobs.follow(client, job["id"])


def _show(client: Client, job: dict[str, Any], out: Path) -> None:
    found = client.findings(job["id"])["findings"]
    table = display.table("moment", "holdings", "observed")
    for finding in found:
        source = finding["source"]
        start, end = source["generated_start_ms"] / 1000, source["generated_end_ms"] / 1000
        moment = f"{display.clock(start)}–{display.clock(end)}"
        holdings = ", ".join(finding["holding_ids"])
        table.add_row(moment, display.seen(holdings), display.seen(finding["evidence"]))
    display.say(f"{job['state']}: {len(found)} findings")
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
    display.say(f"watch it in a browser (the link works once): {url}/sign-in?token={quote(token)}")


def _with_free_port(settings: Settings) -> Settings:
    """The settings' own port, or any other where that is taken."""
    host, _, port = settings.bind.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            probe.bind((host, 0))
        return replace(settings, bind=f"{host}:{probe.getsockname()[1]}")


def _await_ready(url: str, *processes: Child) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if not all(process.is_running for process in processes):
            raise DemoFailed
        try:
            if httpx.get(f"{url}/readyz", timeout=5, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(POLL_S)
    raise DemoFailed(f"the API was not ready within {READY_S:g} s")
