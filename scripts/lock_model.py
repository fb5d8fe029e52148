"""Records in model-lock.json what the locked files are, from a snapshot that was downloaded.

    python scripts/lock_model.py SNAPSHOT                 the snapshot's files
    python scripts/lock_model.py SNAPSHOT --references    and the reference files, fetched

A folder must tell that it was downloaded at the locked revision. What is recorded already stays:
a file that differs from it is refused, and nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from omnai import display
from omnai.commands.model import show
from omnai.exits import Exit, refusals
from pipeline.engine.minicpm import sources
from pipeline.engine.minicpm.download import Origin, origin
from pipeline.engine.minicpm.lock import (
    LOCK_PATH,
    LockedFile,
    ModelLock,
    SnapshotRefused,
    Verification,
    read_lock,
    with_fingerprints,
    write_lock,
)
from pipeline.errors import Problem


def main(
    snapshot: Annotated[Path, typer.Argument(help="A folder of `omnai model download`.")],
    references: Annotated[
        bool, typer.Option("--references", help="Fetch and record the reference files too.")
    ] = False,
    lock: Annotated[Path, typer.Option(help="The lock to fill.")] = LOCK_PATH,
) -> None:
    """Fill the lock's fingerprints."""
    with refusals(as_json=False):
        locked = read_lock(lock)
        report = sources.check_snapshot(locked, snapshot)
        if report.problems:
            show(report, as_json=False)
            raise typer.Exit(Exit.BAD_INPUT)
        found = sources.read_snapshot(locked, snapshot)
        _check_origin(locked, snapshot, found)
        filled = _recorded(locked, found, f"a snapshot of {locked.repository} at this revision")
        if references:
            contents, problems = sources.fetch(locked.references)
            if problems:
                raise SnapshotRefused(*problems)
            filled = _recorded(filled, contents, "its host at the pinned revision")
        write_lock(filled, lock)
    known = sum(file.fingerprint is not None for file in filled.every_file)
    display.say(f"{lock.name}: {known} of {len(filled.every_file)} files are verified")


def _check_origin(lock: ModelLock, folder: Path, contents: Mapping[LockedFile, bytes]) -> None:
    """Raises SnapshotRefused where the folder does not tell that these are the hub's very bytes."""
    wrong = [
        Problem(code="origin_unproven", where=file.path, message=reason)
        for file, content in contents.items()
        if (reason := _doubt(origin(folder, file.path), content, lock)) is not None
    ]
    if wrong:
        raise SnapshotRefused(*wrong)


def _doubt(found: Origin | None, content: bytes, lock: ModelLock) -> str | None:
    wanted = f"a folder of `omnai model download` at {lock.revision} is accepted"
    if found is None:
        return f"nothing in the folder tells where it is from; {wanted}"
    if found.revision != lock.revision:
        return f"it was downloaded at revision {found.revision}; {wanted}"
    if not found.is_of(content):
        return f"it was changed after its download; {wanted}"
    return None


def _recorded(lock: ModelLock, contents: Mapping[LockedFile, bytes], source: str) -> ModelLock:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    found = {
        file: (hashlib.sha256(content).hexdigest(), len(content))
        for file, content in contents.items()
    }
    return with_fingerprints(lock, found, Verification(at=now, source=source))


if __name__ == "__main__":
    typer.run(main)
