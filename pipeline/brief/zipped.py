"""ZIP files of which every byte follows from the names and contents that are put in."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO

_PART = re.compile(r"[A-Za-z0-9_.\[\]-]*[A-Za-z0-9_\]-]")
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first moment that the format can write down: entries carry no time of their own."""
_UNIX = 3
_PLAIN_FILE = 0o100644 << 16
_CONTENT_TYPES = "[Content_Types].xml"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file as it was written."""

    name: str
    sha256: str
    size_bytes: int


class Archive:
    """Writes entries in the order they come, stored and not packed.

    Packed bytes would depend on the zlib that Python was built with. The stream must be seekable;
    it stays open. Close the archive, or leave its block, before the stream is read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED)
        self._entries: dict[str, Entry] = {}

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What has been written so far."""
        return tuple(self._entries.values())

    def add(self, name: str, content: bytes) -> None:
        self.add_parts(name, [content], size_bytes=len(content))

    def add_parts(self, name: str, parts: Iterable[bytes], *, size_bytes: int) -> None:
        """Raises ValueError for a name that is no plain relative path, or was written before."""
        if not all(map(_PART.fullmatch, name.split("/"))) or name in self._entries:
            raise ValueError(f"not a name of a new entry: {name!r}; a relative path would be")
        digest = hashlib.sha256()
        written = 0
        with self._zip.open(_info(name, size_bytes), "w") as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                written += len(part)
        self._entries[name] = Entry(name=name, sha256=digest.hexdigest(), size_bytes=written)


def repacked(package: bytes) -> bytes:
    """An Office file with its parts in a fixed order and without the time of its making."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as source, Archive(made) as archive:
        names = sorted(source.namelist(), key=lambda name: (name != _CONTENT_TYPES, name))
        for name in names:
            archive.add(name, source.read(name))
    return made.getvalue()


def _info(name: str, size_bytes: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EARLIEST)
    info.create_system = _UNIX
    info.external_attr = _PLAIN_FILE
    info.compress_type = zipfile.ZIP_STORED
    info.file_size = size_bytes
    return info
