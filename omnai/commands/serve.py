"""`omnai serve` and `omnai worker`: the API and a worker, with the services they need."""

from __future__ import annotations

import gc
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, NoReturn

import typer

from omnai import display
from omnai.exits import Exit, refusals
from omnai.interrupts import Interrupted, Interrupts
from omnai.stores import clear_killed, ready
from pipeline.settings import Settings


def serve(
    bind: Annotated[
        str | None, typer.Option(help="Address and port; OMNAI_BIND otherwise.")
    ] = None,
) -> None:
    """Run the HTTP API and the pages, until Ctrl-C."""
    from omnai.processes import Child, api_command, environment

    status = Exit.DONE.value
    with (
        refusals(as_json=False),
        Interrupts() as interrupts,
        ready(Settings.from_environment()) as settings,
    ):
        settings = settings if bind is None else replace(settings, bind=bind)
        clear_killed(settings)
        settings.data_dir.mkdir(parents=True, exist_ok=True)  # the server's own files go there too
        with (
            Child("API", api_command(settings), environment(settings), log=None) as child,
            suppress(Interrupted),
            interrupts.taken(),
        ):
            status = child.wait()
    raise typer.Exit(status)


def worker(
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether this slot's worker is running.")
    ] = False,
) -> None:
    """Run one worker slot: supervisor, Celery worker and media processes, until Ctrl-C."""
    if check:
        _check()
    from worker.supervisor import run

    status = Exit.DONE.value
    with (
        refusals(as_json=False),
        Interrupts() as interrupts,
        ready(Settings.from_environment()) as settings,
        suppress(Interrupted),
        interrupts.taken(),  # until the supervisor answers the signals itself
    ):
        status = run(settings)
    # Python would first look through all that is loaded for what can be thrown away, which takes
    # longer than all the rest of leaving.
    gc.freeze()
    raise typer.Exit(status)


def _check() -> NoReturn:
    """By the locks that the processes hold, which no stale number can feign."""
    from worker import slot

    with refusals(as_json=False):
        settings = Settings.from_environment()
        missing = [
            role for role in (slot.SUPERVISOR, slot.ENGINE) if slot.holder(settings, role) is None
        ]
        name = slot.slot_name(settings)
    display.say(f"{name}: {'running' if not missing else 'no ' + ' and no '.join(missing)}")
    raise typer.Exit(Exit.FAULT if missing else Exit.DONE)
