"""`omnai db`: the database's tables."""

from __future__ import annotations

from typing import Annotated

import typer

from omnai import display
from omnai.exits import refusals
from omnai.stores import addressed
from pipeline.settings import Settings

app = typer.Typer(help="The database's tables.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The database's tables."""


@app.command()
def upgrade(
    json_: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a sentence.")
    ] = False,
) -> None:
    """Bring the database to this release's tables; safe to repeat."""
    from pipeline.ledger import migrate

    settings = Settings.from_environment()
    with refusals(as_json=json_), addressed(settings, needs_queue=False) as found:
        url = found.database_url
        assert url is not None
        before = migrate.current(url)
        migrate.upgrade(url)
        after = migrate.current(url)
        if json_:
            display.write_json({"from": before, "to": after})
        elif before == after:
            display.say(f"The database is up to date ({after}).")
        else:
            display.say(f"The database went from {before or 'empty'} to {after}.")
