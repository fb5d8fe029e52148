"""Room on the disk of the data folder, where uploads, frames and staged recordings are written."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pipeline.ledger.errors import StorageLow
from pipeline.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Space:
    """The disk of one data folder, and how much of it has to stay free.

    Also where recordings and frames lie in a bucket: uploads under way and staged copies are local.
    """

    folder: Path
    free_bytes_min: int

    def is_low(self) -> bool:
        return self.free_bytes_min > 0 and self.free_bytes() < self.free_bytes_min

    def check(self, *, coming_bytes: int = 0) -> None:
        """Raises StorageLow where the mark would not hold once `coming_bytes` more are written."""
        if self.free_bytes_min == 0:
            return
        free_bytes = self.free_bytes()
        if free_bytes - coming_bytes < self.free_bytes_min:
            raise StorageLow(free_bytes=free_bytes, free_bytes_min=self.free_bytes_min)

    def free_bytes(self) -> int:
        """For this user, in bytes; of the nearest folder that is there."""
        folder = self.folder.absolute()
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free


def space_of(settings: Settings) -> Space:
    return Space(folder=settings.data_dir, free_bytes_min=settings.free_bytes_min)
