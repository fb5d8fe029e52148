"""`omnai workers`: the slots of every host, and a host that is gone for good."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnai import display
from omnai.exits import refusals
from omnai.stores import opened
from pipeline.plain import to_plain
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.ledger.database import Database

app = typer.Typer(help="Workers' slots, by host.", no_args_is_help=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def show(context: typer.Context, json_: AsJson = False) -> None:
    """Show each slot, its last sign of life, and the jobs that hold it."""
    if context.invoked_subcommand is not None:
        return
    with refusals(as_json=json_), opened(Settings.from_environment()) as stores:
        found = _slots(stores.database)
        if json_:
            display.write_json(found)
            return
        table = display.table("host", "slot", "engine", "state", "last sign", "holds it")
        for slot in found:
            table.add_row(
                display.seen(slot["host"]),
                display.seen(slot["slot"]),
                display.seen(slot["engine"] or "–"),
                slot["state"] or "–",
                f"{slot['silent_s']:.0f} s ago",
                "\n".join(slot["held_by"]) or "–",
            )
        display.console().print(table)


@app.command()
def forget(
    host: Annotated[str, typer.Argument(help="The host's name, as `omnai workers` shows it.")],
    json_: AsJson = False,
) -> None:
    """End and free what a host held that will not come back: no process of it runs any more."""
    from pipeline.ledger import hosts

    with refusals(as_json=json_), opened(Settings.from_environment()) as stores:
        forgotten = hosts.forget(stores.database, host)
        if json_:
            display.write_json({"host": host, **to_plain(forgotten)})
            return
        display.say(
            display.seen(f"Forgot {host}: {forgotten.slots} slots, {forgotten.epochs} epochs.")
        )


def _slots(database: Database) -> list[dict[str, Any]]:
    """Of workers, and what is held under a name that no worker has any more."""
    from pipeline.ledger import epochs, workers

    slots: dict[tuple[str, str], dict[str, Any]] = {}
    held: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for worker in workers.listed(database):
        slots[worker.host, worker.slot] = {
            "engine": worker.engine,
            "state": worker.state.value,
            "silent_s": (worker.now - worker.alive_at).total_seconds(),
        }
    for epoch in epochs.unreleased(database):
        place = epoch.host, epoch.slot
        held[place].append(epoch.key.job_id)
        silent_s = (epoch.now - epoch.alive_at).total_seconds()
        slot = slots.setdefault(place, {"engine": None, "state": None, "silent_s": silent_s})
        slot["silent_s"] = min(slot["silent_s"], silent_s)
    return [
        {"host": host, "slot": name, **slot, "held_by": held[host, name]}
        for (host, name), slot in sorted(slots.items())
    ]
