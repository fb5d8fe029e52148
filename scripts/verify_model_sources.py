"""Checks upstream's small files at their pinned revisions: no weights, no credentials.

    python scripts/verify_model_sources.py                   as their hosts publish them
    python scripts/verify_model_sources.py --snapshot DIR    in a local folder, without network

Exit status: 0 all verified, 2 something is wrong, 3 nothing is wrong and something is unverified.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnai.commands.model import AsJson, show
from omnai.exits import refusals
from pipeline.engine.minicpm import sources
from pipeline.engine.minicpm.lock import read_lock


def main(
    snapshot: Annotated[
        Path | None, typer.Option(help="A local folder to check instead, without network.")
    ] = None,
    json_: AsJson = False,
) -> None:
    """Check upstream's small files against the lock and what the adapter relies on in them."""
    with refusals(as_json=json_):
        lock = read_lock()
        if snapshot is None:
            report = sources.check_published(lock)
        else:
            report = sources.check_snapshot(lock, snapshot)
    raise typer.Exit(show(report, as_json=json_))


if __name__ == "__main__":
    typer.run(main)
