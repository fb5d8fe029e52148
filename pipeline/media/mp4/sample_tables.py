"""The tables of one track of an MP4 file, checked block by block and cut down to some chunks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.media.mp4.boxes import Box, Unclear, body, children, make, only, read_at, whole
from pipeline.media.mp4.chunks import Chunks, Stretch
from pipeline.media.mp4.numbers import Numbers
from pipeline.media.mp4.part import SAMPLES_MAX
from pipeline.media.mp4.runs import Runs
from pipeline.media.mp4.sample_times import Mark, SampleTimes

FORMATS = frozenset(
    {b"avc1", b"avc3", b"hvc1", b"hev1", b"vp09", b"av01", b"mp4a", b"Opus", b"alac", b"fLaC"}
)
"""Sample entries whose samples FFmpeg gives one by one, each as it is in the file."""

DESCRIPTIONS_MAX = 64

GROUPS = (b"sbgp", b"sgpd")

TABLES = frozenset(
    {b"stsd", b"stts", b"ctts", b"cslg", b"stsc", b"stsz", b"stco", b"co64", b"stss", b"sdtp"}
    | set(GROUPS)
)

GROUPS_THAT_COUNT = (b"rap ", b"sync", b"seig")
"""Kinds of sample groups (ISO/IEC 14496-12, 8.9.2) that say how samples are read."""

ROWS_AT_ONCE = 8192


class SampleTables:
    """Of one track. All is read from the file when it is asked for; nothing of it is kept."""

    def __init__(self, descriptor: int, table: Box, *, index: Box, file_end: int) -> None:
        """Raises Unclear where the sample table (`stbl`) is one that is not cut down here.

        No sample may lie beyond `file_end`, which the file itself may not reach.
        """
        self._descriptor = descriptor
        self._boxes = children(descriptor, table)
        kinds = [box.kind for box in self._boxes if box.kind not in GROUPS]
        if not set(kinds) <= TABLES or len(set(kinds)) != len(kinds):
            raise Unclear
        descriptions = count_descriptions(body(descriptor, only(self._boxes, b"stsd")))
        self._check_groups()
        is_wide = b"co64" in kinds
        sizes = self._sizes(only(self._boxes, b"stsz"))
        self.samples = sizes.rows
        self.chunks = Chunks(
            counts=self._numbers(b"stsc", columns=3),
            offsets=self._numbers(b"co64" if is_wide else b"stco", is_wide=is_wide),
            sizes=sizes,
            descriptions=descriptions,
        )
        self.times = SampleTimes(
            samples=self.samples,
            decode=Runs(self._numbers(b"stts", columns=2)),
            present=(
                Runs(self._numbers(b"ctts", columns=2), is_signed=True)
                if b"ctts" in kinds
                else None
            ),
        )
        self._sync = self._numbers(b"stss") if b"stss" in kinds else None
        if b"sdtp" in kinds and only(self._boxes, b"sdtp").size != 12 + self.samples:
            raise Unclear
        self._check_sync()
        self.present = self.chunks.check(
            index=index, file_bytes=os.fstat(descriptor).st_size, file_end=file_end
        )
        """How many samples the file has; the last may be cut off."""

    def sync_before(self, sample: int) -> int:
        """The last sample at or before this one that can be decoded alone."""
        if self._sync is None:
            return sample
        return int(self._sync.read(self._sync.rank(sample + 1) - 1, 1)[0]) - 1

    def cut(self, stretches: Sequence[Stretch], marks: Mapping[int, Mark]) -> bytes:
        """A sample table of these chunks alone, each at its time in the whole.

        Raises Unclear where two of them lie too far apart.
        """
        made = []
        for box in self._boxes:
            match box.kind:
                case b"stts":
                    table = self.times.cut_decode(stretches, marks)
                case b"ctts":
                    table = self.times.cut_present(stretches, marks)
                case b"stsc":
                    table = self.chunks.cut_counts(stretches)
                case b"stsz":
                    table = self.chunks.cut_sizes(stretches)
                case b"stco" | b"co64":
                    table = self.chunks.cut_offsets(stretches)
                case b"stss":
                    table = self._cut_sync(stretches)
                case b"sdtp":
                    table = self._cut_dependence(box, stretches)
                case b"stsd":
                    made.append(whole(self._descriptor, box))
                    continue
                case _:
                    continue  # of what FFmpeg takes no notice of
            made.append(make(box.kind, read_at(self._descriptor, box.at + 8, 4) + table))
        return make(b"stbl", b"".join(made))

    def _check_groups(self) -> None:
        for box in self._boxes:
            if box.kind in GROUPS:
                head = read_at(self._descriptor, box.at, min(box.size, 16))
                if head[12:16] in GROUPS_THAT_COUNT:
                    raise Unclear

    def _sizes(self, box: Box) -> Numbers:
        head = read_at(self._descriptor, box.at + 12, 8)
        samples = int.from_bytes(head[4:], "big")
        if head[:4] != bytes(4) or not 0 < samples <= SAMPLES_MAX or box.size != 20 + 4 * samples:
            raise Unclear
        return Numbers(descriptor=self._descriptor, at=box.at + 20, rows=samples)

    def _numbers(self, kind: bytes, *, columns: int = 1, is_wide: bool = False) -> Numbers:
        box = only(self._boxes, kind)
        rows = int.from_bytes(read_at(self._descriptor, box.at + 12, 4), "big")
        if not rows or box.size != 16 + (8 if is_wide else 4) * columns * rows:
            raise Unclear
        return Numbers(
            descriptor=self._descriptor, at=box.at + 16, rows=rows, columns=columns, is_wide=is_wide
        )

    def _check_sync(self) -> None:
        if self._sync is None:
            return
        last = 0
        for first in range(0, self._sync.rows, ROWS_AT_ONCE):
            found = self._sync.read(first, min(ROWS_AT_ONCE, self._sync.rows - first))
            if found[0] <= last or (np.diff(found) <= 0).any():
                raise Unclear
            last = int(found[-1])
        if int(self._sync.read(0, 1)[0]) != 1 or last > self.samples:
            raise Unclear

    def _cut_sync(self, stretches: Sequence[Stretch]) -> bytes:
        assert self._sync is not None
        found = []
        base = 0
        for stretch in stretches:
            low, high = self._sync.rank(stretch.sample), self._sync.rank(stretch.sample_end)
            found.append(self._sync.read(low, high - low) - stretch.sample + base)
            base += stretch.sample_end - stretch.sample
        numbers = np.concatenate(found)
        return len(numbers).to_bytes(4, "big") + numbers.astype(">u4").tobytes()

    def _cut_dependence(self, box: Box, stretches: Sequence[Stretch]) -> bytes:
        return b"".join(
            os.pread(self._descriptor, s.sample_end - s.sample, box.at + 12 + s.sample)
            for s in stretches
        )


def count_descriptions(data: bytes) -> int:
    """How many the body of `stsd` (8.5.2) has, all of one kind. Raises Unclear."""
    count, at = int.from_bytes(data[4:8], "big"), 8
    if not 1 <= count <= DESCRIPTIONS_MAX:
        raise Unclear
    for _ in range(count):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if size < 16 or at + size > len(data) or kind != data[12:16] or kind not in FORMATS:
            raise Unclear
        at += size
    return count
