"""Folders `ab/` of files named by a digest: what lies in them, and what is ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDER = re.compile("[0-9a-f]{2}")
_DIGEST = re.compile("[0-9a-f]{64}")
_PART = re.compile(r"\.([0-9a-f]{64})\.jpg\.[0-9a-f]{32}\.part")
"""As `pipeline.files` names what is being written."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A file or an object that a digest names."""

    sha256: str
    size_bytes: int
    changed_at: float
    """Seconds of the epoch, by whoever stores it."""


def digest_in(name: str, ending: str) -> str | None:
    """Of `abcdef…` with its ending; none for the name of something else."""
    digest = name.removesuffix(ending)
    return digest if name == digest + ending and _DIGEST.fullmatch(digest) else None


def untouched(root: Path, ending: str, *, since: float) -> Iterator[Stored]:
    """The files that lie where their names say, last changed before `since` (seconds of the epoch).

    Links and whatever has another name are somebody else's and not told.
    """
    for folder, entry, found in _files(root):
        digest = digest_in(entry.name, ending)
        if digest is not None and digest[:2] == folder and found.st_mtime < since:
            yield Stored(sha256=digest, size_bytes=found.st_size, changed_at=found.st_mtime)


def parts(root: Path, *, since: float) -> Iterator[Path]:
    """What a killed process was writing, last changed before `since`."""
    for folder, entry, found in _files(root):
        part = _PART.fullmatch(entry.name)
        if part and part.group(1)[:2] == folder and found.st_mtime < since:
            yield Path(entry.path)


def is_ours(path: Path) -> bool:
    """Whether it is a file and no link to one."""
    return path.is_file() and not path.is_symlink()


def _files(root: Path) -> Iterator[tuple[str, os.DirEntry[str], os.stat_result]]:
    """Read folder by folder, since files come and go meanwhile."""
    if not root.is_dir():
        return
    for folder in sorted(entry.name for entry in os.scandir(root) if _is_folder(entry)):
        with os.scandir(root / folder) as entries:
            found = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield folder, entry, status


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return bool(_FOLDER.fullmatch(entry.name)) and entry.is_dir(follow_symlinks=False)
