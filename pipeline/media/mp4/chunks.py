"""Where the chunks of a track lie in an MP4 file, and which samples are in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.media.mp4.boxes import Box, Unclear
from pipeline.media.mp4.numbers import INTEGERS, Numbers

SAMPLES_AT_ONCE = 8192

CHUNKS_AT_ONCE = 4096

CHUNK_SAMPLES_MAX = 10_000
"""A part is made of whole chunks."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One chunk and the samples in it."""

    index: int
    sample: int
    sample_end: int


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Some chunks in a row, and their samples; each from the first on, up to the last."""

    chunk: int
    chunk_end: int
    sample: int
    sample_end: int


class Chunks:
    """The tables of chunks (ISO/IEC 14496-12, 8.7)."""

    def __init__(
        self, *, counts: Numbers, offsets: Numbers, sizes: Numbers, descriptions: int
    ) -> None:
        """No chunk may be of a sample description beyond so many."""
        self._counted = counts
        self._offsets = offsets
        self._sizes = sizes
        self.count = offsets.rows
        self.descriptions = descriptions
        self.samples = sizes.rows

    def check(self, *, index: Box, file_bytes: int, file_end: int) -> int:
        """How many samples begin within so many bytes.

        Raises Unclear unless chunks lie one after the other, outside of the index and before
        `file_end`, each with all its samples, none of which is empty.
        """
        reached = present = 0
        for chunk, sample, counts in self._counts():
            for some, some_sample, n in _portions(chunk, sample, counts):
                offsets = self._offsets.read(some, len(n))
                sizes = self._sizes.read(some_sample, int(n.sum()))
                ends = offsets + np.add.reduceat(sizes, n.cumsum() - n)
                if sizes.min() < 1 or offsets[0] < reached or (offsets[1:] < ends[:-1]).any():
                    raise Unclear
                if ((offsets < index.end) & (ends > index.at)).any():
                    raise Unclear
                reached = int(ends[-1])
                if offsets[0] < file_bytes:
                    bases = np.repeat(offsets - (sizes.cumsum() - sizes)[n.cumsum() - n], n)
                    begins = bases + sizes.cumsum() - sizes
                    present = some_sample + int(np.searchsorted(begins, file_bytes))
        if reached > file_end:
            raise Unclear
        return present

    def chunks_of(self, samples: Iterable[int]) -> dict[int, Chunk]:
        """The chunk that each of these samples is in."""
        left = sorted(set(samples))
        found = {}
        for chunk, first, counts in self._counts():
            ends = first + counts.cumsum()
            while left and left[0] < ends[-1]:
                sample = left.pop(0)
                place = int(np.searchsorted(ends, sample, "right"))
                end = int(ends[place])
                found[sample] = Chunk(
                    index=chunk + place, sample=end - int(counts[place]), sample_end=end
                )
        return found

    def place_of(self, chunk: int) -> int:
        """Offset of a chunk in the file."""
        return int(self._offsets.read(chunk, 1)[0])

    def cut_counts(self, stretches: Sequence[Stretch]) -> bytes:
        """The table of samples a chunk (8.7.4) of these chunks alone, its head left out."""
        counts = np.concatenate([self._counts_of(s.chunk, s.chunk_end) for s in stretches])
        firsts = np.flatnonzero(np.diff(counts, axis=0, prepend=0).any(axis=1))
        rows = np.column_stack((firsts + 1, counts[firsts]))
        return len(rows).to_bytes(4, "big") + rows.astype(">u4").tobytes()

    def cut_offsets(self, stretches: Sequence[Stretch]) -> bytes:
        """The same of their offsets (8.7.5)."""
        found = [self._offsets.bytes(s.chunk, s.chunk_end - s.chunk) for s in stretches]
        count = sum(s.chunk_end - s.chunk for s in stretches)
        return count.to_bytes(4, "big") + b"".join(found)

    def cut_sizes(self, stretches: Sequence[Stretch]) -> bytes:
        """The same of their samples' sizes (8.7.3)."""
        found = [self._sizes.bytes(s.sample, s.sample_end - s.sample) for s in stretches]
        count = sum(s.sample_end - s.sample for s in stretches)
        return bytes(4) + count.to_bytes(4, "big") + b"".join(found)

    def _counts(self) -> Iterator[tuple[int, int, INTEGERS]]:
        """Chunks in a row: the first of them, its first sample, and the samples in each."""
        entry = sample = 0
        for chunk in range(0, self.count, CHUNKS_AT_ONCE):
            firsts, counts = self._entries(entry)
            wanted = np.arange(chunk, min(chunk + CHUNKS_AT_ONCE, self.count))
            entries = np.searchsorted(firsts, wanted, "right") - 1
            found = counts[entries]
            yield chunk, sample, found
            sample += int(found.sum())
            entry += int(entries[-1])
        if sample != self.samples:
            raise Unclear

    def _counts_of(self, chunk: int, chunk_end: int) -> INTEGERS:
        """How many samples each of these chunks has, and of which description they are."""
        entry = self._counted.rank(chunk + 1) - 1
        table = self._counted.read(entry, min(chunk_end - chunk, self._counted.rows - entry))
        wanted = np.arange(chunk + 1, chunk_end + 1)
        found: INTEGERS = table[np.searchsorted(table[:, 0], wanted, "right") - 1, 1:]
        return found

    def _entries(self, entry: int) -> tuple[INTEGERS, INTEGERS]:
        """First chunks, counted from 0, and samples a chunk, from an entry on."""
        n = min(CHUNKS_AT_ONCE + 1, self._counted.rows - entry)
        table = self._counted.read(entry, n)
        firsts, counts, formats = table[:, 0] - 1, table[:, 1], table[:, 2]
        if (
            (formats < 1).any()
            or (formats > self.descriptions).any()
            or (counts < 1).any()
            or (counts > CHUNK_SAMPLES_MAX).any()
            or (np.diff(firsts) <= 0).any()
            or firsts[-1] >= self.count
            or (entry == 0 and firsts[0] != 0)
        ):
            raise Unclear
        return firsts, counts


def _portions(chunk: int, sample: int, counts: INTEGERS) -> Iterator[tuple[int, int, INTEGERS]]:
    """The same chunks, no more at a time than hold some ten thousand samples."""
    while len(counts):
        n = max(int(np.searchsorted(counts.cumsum(), SAMPLES_AT_ONCE)), 1)
        yield chunk, sample, counts[:n]
        chunk, sample = chunk + n, sample + int(counts[:n].sum())
        counts = counts[n:]
