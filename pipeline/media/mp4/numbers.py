"""Tables of numbers in a file, read as they are asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.media.mp4.boxes import Unclear

INTEGERS = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Big-endian numbers, some to a row."""

    descriptor: int
    at: int
    """Offset of the first row in the file."""
    rows: int
    columns: int = 1
    is_wide: bool = False
    """Whether each takes 8 bytes in place of 4."""

    def read(self, row: int, rows: int) -> INTEGERS:
        """These rows. Raises Unclear where the file has fewer."""
        data = self.bytes(row, rows)
        found = np.frombuffer(data, ">i8" if self.is_wide else ">u4").astype(np.int64)
        if len(data) != rows * self._row_bytes or (self.is_wide and (found < 0).any()):
            raise Unclear
        return found if self.columns == 1 else found.reshape(-1, self.columns)

    def bytes(self, row: int, rows: int) -> bytes:
        """The same as the file has them."""
        return os.pread(self.descriptor, rows * self._row_bytes, self.at + row * self._row_bytes)

    def rank(self, number: int) -> int:
        """How many rows begin with no more than `number`; they ascend."""
        low, high = 0, self.rows
        while low < high:
            middle = (low + high) // 2
            if int(self.read(middle, 1).flat[0]) <= number:
                low = middle + 1
            else:
                high = middle
        return low

    @property
    def _row_bytes(self) -> int:
        return self.columns * (8 if self.is_wide else 4)
