"""`omnai ingest`: fetches the recordings that jobs name by a link."""

from __future__ import annotations

from contextlib import suppress

import typer

from omnai.exits import Exit, refusals
from omnai.interrupts import Interrupted, Interrupts
from omnai.stores import ready
from pipeline.settings import Settings


def ingest() -> None:
    """Fetch recordings from links, where OMNAI_FETCH_URLS allows it, until Ctrl-C."""
    from worker.ingest.process import run

    status = Exit.DONE.value
    with (
        refusals(as_json=False),
        Interrupts() as interrupts,
        ready(Settings.from_environment()) as settings,
        suppress(Interrupted),
        interrupts.taken(),  # until the process answers the signals itself
    ):
        status = run(settings)
    raise typer.Exit(status)
