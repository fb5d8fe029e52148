"""The folder of the services' sockets: private to the caller, short enough for a socket's path."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from omnai.services.errors import RootUnusable

LONGEST_BYTES = 80
"""A socket's whole path may have 103 bytes on macOS; `/.s.PGSQL.5432.lock` takes 19 of them."""

PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
"""What needs no quoting in a server's setting, a URL or a list of hosts."""

SHORT_PARENT = Path("/tmp")
"""Fixed, not TMPDIR: every command must find the same folder, whatever its environment."""


def folder_of(root: Path) -> Path:
    inside = root / "run"
    if len(os.fsencode(inside)) <= LONGEST_BYTES and PLAIN.fullmatch(str(inside)):
        return inside
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    return SHORT_PARENT / f"omnai-{os.geteuid()}-{digest}"


def prepare(folder: Path) -> None:
    """Make the folder; one that another user has put in its place is refused."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise RootUnusable(folder, error.strerror or str(error)) from error
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or stat.S_IMODE(found.st_mode) != 0o700
    ):
        raise RootUnusable(folder, "it is not a folder that only you can enter (mode 0700).")
