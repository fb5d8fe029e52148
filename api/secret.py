"""The secret that signs browsers' sessions: the installation's own, else one made for it once."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from pipeline.settings import Settings

SECRET_BYTES = 32
FILE = "secret_key"


def secret_key(settings: Settings) -> bytes:
    """The one that is set, else of a file in the data folder, readable by us alone.

    The file is made where there is none.
    """
    if settings.secret_key is not None:
        return settings.secret_key.encode()
    path = settings.data_dir / FILE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path)
    return path.read_bytes().strip()


def _make(path: Path) -> None:
    part = path.with_name(f".{FILE}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # A link never replaces: of several processes that start at once, all read the first one's.
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
