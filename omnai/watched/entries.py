"""The files of a folder that may be recordings, and when each has come to rest."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

SKIPPED_STARTS = (".", "~", "@", "#")
"""Hidden files; Office's `~$` and editors' locks; Synology's and QNAP's `@…` and `#recycle`."""

SKIPPED_ENDS = (
    *(".part", ".partial", ".filepart", ".crdownload", ".download", ".opdownload"),
    *(".tmp", ".temp", ".aria2", ".!ut", "@synoeastream", "@synoresource"),
)
"""What browsers and copying programs call a file that is not there yet, in lower case."""

SKIPPED_NAMES = frozenset({"thumbs.db", "desktop.ini"})


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """Differs once a file has been written to; not its inode, which network shares make up."""

    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)


def may_be_recording(name: str) -> bool:
    lower = name.lower()
    return not (
        lower.startswith(SKIPPED_STARTS) or lower.endswith(SKIPPED_ENDS) or lower in SKIPPED_NAMES
    )


def found(folder: Path) -> dict[str, Stamp]:
    """The folder's own regular files with something in them; no links, no subfolders.

    Lets OSError through for the folder; a file that goes meanwhile is not there.
    """
    stamps: dict[str, Stamp] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not may_be_recording(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size > 0:
                stamps[entry.name] = Stamp.of(status)
    return stamps


class Settling:
    """Since when each file has looked as it does, by our own clock: a share's may differ."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._seen: dict[str, tuple[Stamp, float]] = {}

    def settled(self, stamps: dict[str, Stamp]) -> list[str]:
        """The names that have not changed for long enough, the oldest files first."""
        now = time.monotonic()
        before = self._seen
        self._seen = {}
        for name, stamp in stamps.items():
            last = before.get(name)
            self._seen[name] = last if last is not None and last[0] == stamp else (stamp, now)
        names = [name for name, (_, since) in self._seen.items() if now - since >= self._settle_s]
        return sorted(names, key=lambda name: (stamps[name].mtime_ns, name))

    def restart(self, name: str) -> None:
        """It changed while it was looked at."""
        self._seen.pop(name, None)
