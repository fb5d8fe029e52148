"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """Put the file in place once its bytes are on the disk; whoever looks sees it old or new.

    Its name is safe against a loss of power once the folder is synced too. Lets OSError through.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """The same for what is there at once."""
    with writing_whole(path) as file:
        file.write(content)
