"""`omnai sweep`: deletes what has expired and removes the bytes that no row names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from omnai import display
from omnai.exits import refusals
from omnai.stores import ready
from pipeline.settings import Settings


def sweep(
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a sentence.")
    ] = False,
) -> None:
    """Remove what a worker would within the hour; safe beside everything else."""
    from pipeline.ledger import sweep as ledger
    from pipeline.ledger.database import connect
    from pipeline.ledger.storage import open_storage

    with (
        refusals(as_json=json_),
        ready(Settings.from_environment(), needs_queue=False) as settings,
    ):
        assert settings.database_url is not None
        database = connect(settings.database_url)
        try:
            swept = ledger.sweep(database, open_storage(settings), settings, is_dry_run=is_dry_run)
        finally:
            database.dispose()
        if json_:
            display.write_json({"is_dry_run": is_dry_run, **asdict(swept)})
            return
        display.say(
            f"{'Would remove' if is_dry_run else 'Removed'} {swept.jobs} jobs,"
            f" {swept.recordings} recordings, {swept.blobs} stored files, {swept.frames} frames,"
            f" {swept.uploads} unfinished uploads and {swept.parts} partial files:"
            f" {swept.freed_bytes} bytes."
        )
