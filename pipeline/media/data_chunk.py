"""The samples of a sound file that does not say how many they are, or says more than there are.

Who writes to a pipe cannot go back to tell the length, and a recorder that is cut off never does.
FFmpeg refuses some of these files, and of the others calls the last packet damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Literal

from pipeline.media.chunks import (
    DESCRIPTION_BYTES,
    Chunk,
    Layout,
    Stored,
    chunks_of,
    layout_of,
    stored_by,
)

PLACEHOLDER_BYTES = 1 << 16
"""By how much a length that stands for none falls short of all that a number can be: some take off
their header, others count whole pages."""

_TOPS = (1 << 31, 1 << 32, 1 << 63, 1 << 64)


@dataclass(frozen=True, kw_only=True)
class _Length:
    """A number in the file that counts the bytes of the samples and some more."""

    at: int
    size_bytes: int
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class DataChunk:
    """Samples that are not as many as the file says."""

    declared: int | None
    """Bytes by the file; None where it does not say."""
    start: int
    held: int
    """Bytes from the first sample to the end of the file."""
    stored: Stored
    order: Literal["little", "big"]
    lengths: tuple[_Length, ...]

    @property
    def whole(self) -> int:
        """Bytes of the samples that are there as a whole."""
        return self.held - self.held % self.stored.frame_bytes

    @property
    def is_cut(self) -> bool:
        """Whether it breaks off, by more than its header: that, some writers count in."""
        return self.declared is not None and self.declared - self.held > self.start

    @property
    def declared_s(self) -> Fraction | None:
        """Seconds by the file, where it breaks off before."""
        if self.declared is None or not self.is_cut:
            return None
        return self.declared / self.stored.bytes_per_s

    @property
    def whole_s(self) -> Fraction:
        """Seconds that are there."""
        return self.whole / self.stored.bytes_per_s

    def patches(self) -> list[tuple[int, bytes]]:
        """The file's own numbers as they would be, had it said how many whole samples it holds."""
        return [
            (length.at, self._number(length).to_bytes(length.size_bytes, self.order))
            for length in self.lengths
        ]

    def _number(self, length: _Length) -> int:
        most = (1 << 8 * length.size_bytes) - 1  # FFmpeg then reads to the end of the file
        return min(self.whole + length.more, most)


def find_misdeclared(path: str) -> DataChunk | None:
    """The samples, where the file does not hold as many as it says, or does not say."""
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        head = file.read(12)
        layout = layout_of(head)
        return None if layout is None else _find(file, size, head[:4], layout)


def patches_of_whole(path: str) -> list[tuple[int, bytes]]:
    """What makes the file say how many samples it holds; nothing where it does.

    One that says so and breaks off within a sample stays as it is: that is damage.
    """
    found = find_misdeclared(path)
    if found is None or (found.is_cut and found.whole != found.held):
        return []
    return found.patches()


def _find(file: BinaryIO, size: int, kind: bytes, layout: Layout) -> DataChunk | None:
    stored: Stored | None = None
    sizes: Chunk | None = None
    for chunk in chunks_of(file, layout, layout.first_at, size):
        if chunk.name in (b"data", b"SSND"):
            break
        if chunk.name == b"ds64":
            sizes = chunk
        elif chunk.name in (b"fmt ", b"COMM", b"desc"):
            file.seek(chunk.start)
            stored = stored_by(chunk.name, file.read(DESCRIPTION_BYTES), layout)
    else:
        return None
    if stored is None:
        return None
    start = chunk.start + layout.before_samples
    more = start - chunk.start + (layout.head_bytes if layout.is_head_counted else 0)
    lengths = [_Length(at=chunk.start - layout.size_bytes, size_bytes=layout.size_bytes, more=more)]
    declared = chunk.size - layout.before_samples
    if kind in (b"RF64", b"BW64"):
        if sizes is None:
            return None
        file.seek(sizes.start + 8)
        declared = int.from_bytes(file.read(8), "little")
        lengths = [_Length(at=sizes.start + 8, size_bytes=8)]
    elif kind == b"riff":
        lengths.append(_Length(at=16, size_bytes=8, more=start))
    elif kind == b"FORM":
        lengths.append(_Length(at=4, size_bytes=4, more=start - 8))
    held = size - start
    if declared <= 0 and (held <= 0 or _are_chunks(file, layout, start, size)):
        return None
    is_wrapped = lengths[0].size_bytes == 4 and held - declared >= 1 << 32
    if 0 < declared <= held and not is_wrapped:
        return None
    is_unknown = declared <= 0 or is_wrapped or _is_placeholder(declared)
    return DataChunk(
        declared=None if is_unknown else declared,
        start=start,
        held=held,
        stored=stored,
        order=layout.order,
        lengths=tuple(lengths),
    )


def _are_chunks(file: BinaryIO, layout: Layout, at: int, size: int) -> bool:
    """Whether chunks, and nothing else, fill the rest of the file: then there are no samples."""
    end = at
    for chunk in chunks_of(file, layout, at, size):
        end = chunk.start + chunk.size
    return at < end and end <= size <= end + layout.padded_to


def _is_placeholder(declared: int) -> bool:
    return any(abs(top - declared) <= PLACEHOLDER_BYTES for top in _TOPS)
