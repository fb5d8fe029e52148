"""`omnai services`: the embedded PostgreSQL and Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnai import display
from omnai.exits import refusals
from pipeline.plain import to_plain
from pipeline.settings import Settings

if TYPE_CHECKING:
    from omnai.services import EmbeddedServices, ServicesStatus

app = typer.Typer(help="The embedded PostgreSQL and Valkey.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command()
def start(json_: AsJson = False) -> None:
    """Start both and keep them running until `stop`."""
    with refusals(as_json=json_):
        _show(_services().start(keep=True), as_json=json_)


@app.command()
def stop(json_: AsJson = False) -> None:
    """Stop both, or let them end with the last command that uses them."""
    with refusals(as_json=json_):
        _show(_services().stop(), as_json=json_)


@app.command()
def status(json_: AsJson = False) -> None:
    """Say what runs, where, and what is wrong."""
    with refusals(as_json=json_):
        _show(_services().status(), as_json=json_)


def _services() -> EmbeddedServices:
    from omnai.services import EmbeddedServices

    return EmbeddedServices(Settings.from_environment().data_dir / "services")


def _show(found: ServicesStatus, *, as_json: bool) -> None:
    if as_json:
        display.write_json(to_plain(found))
        return
    table = display.table("service", "state", "version", "process", "problem")
    for service in found.all:
        table.add_row(
            service.name,
            service.state.value,
            service.version or "not installed",
            str(service.pid or "–"),
            display.seen(service.problem or "–"),
        )
    display.console().print(table)
