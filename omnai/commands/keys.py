"""`omnai keys`: who may call the API."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated

import typer

from omnai import display
from omnai.exits import refusals
from omnai.stores import opened
from pipeline.errors import InputRefused, Problem
from pipeline.ledger import keys
from pipeline.ledger.keys import Key, Role
from pipeline.plain import to_plain
from pipeline.settings import Settings

app = typer.Typer(help="Keys of the API.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

DAYS = 365
"""A key that nobody renews ends by itself."""


@app.command()
def create(
    owner: Annotated[str, typer.Argument(help="Whose recordings and jobs it opens.")],
    role: Annotated[Role, typer.Option(help="An admin sees everybody's and may rerun.")] = (
        Role.ANALYST
    ),
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    days: Annotated[int, typer.Option(min=1, help="How long it is valid.")] = DAYS,
    json_: AsJson = False,
) -> None:
    """Make a key. Its secret is shown now and never again."""
    with refusals(as_json=json_), opened(Settings.from_environment()) as stores:
        until = datetime.now(timezone.utc) + timedelta(days=days)
        key, secret = keys.create(
            stores.database, owner=owner, role=role, label=label, expires_at=until
        )
        if json_:
            display.write_json({**to_plain(key), "secret": secret})
            return
        display.say(display.seen(f"key {key.id} for {key.owner} ({key.role.value})"))
        display.say(secret)
        display.say("It is not stored and cannot be shown again.")


@app.command("list")
def listed(json_: AsJson = False) -> None:
    """List keys, without their secrets."""
    with refusals(as_json=json_), opened(Settings.from_environment()) as stores:
        found = keys.listed(stores.database)
        if json_:
            display.write_json(to_plain(found))
            return
        table = display.table("key", "owner", "role", "label", "last used", "valid until", "state")
        for key in found:
            table.add_row(
                key.id,
                display.seen(key.owner),
                key.role.value,
                display.seen(key.label or "–"),
                _day(key.last_used_at),
                _day(key.expires_at),
                _state(key),
            )
        display.console().print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `keys list` shows it.")],
    json_: AsJson = False,
) -> None:
    """End a key at once."""
    with refusals(as_json=json_), opened(Settings.from_environment()) as stores:
        if not keys.revoke(stores.database, key_id):
            raise InputRefused(
                Problem(
                    code="key_unknown",
                    where="",
                    message="there is no such key, or it was revoked before; see `omnai keys list`",
                )
            )
        if json_:
            display.write_json({"id": key_id, "revoked": True})
        else:
            display.say(f"key {key_id} is revoked")


def _day(at: datetime | None) -> str:
    return "–" if at is None else at.date().isoformat()


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= datetime.now(timezone.utc):
        return "expired"
    return "valid"
