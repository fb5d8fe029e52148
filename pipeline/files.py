"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put the file in place once its bytes are on the disk; whoever looks sees it old or new.

    Its name is safe against a loss of power once the folder is synced too. Lets OSError through.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
