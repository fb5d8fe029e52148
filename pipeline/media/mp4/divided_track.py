"""One track of a long MP4 file, and which of its chunks each part of the file shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pipeline.media.mp4.boxes import Box, Unclear, body, children, make, only, with_others
from pipeline.media.mp4.chunks import Chunk, Stretch
from pipeline.media.mp4.part import TAIL_SAMPLES_MAX, Bounds
from pipeline.media.mp4.sample_tables import SampleTables
from pipeline.media.mp4.sample_times import LAGS, Mark

HEAD_S = 20
"""What is shown of the beginning, after what an edit list leaves out, and of the end before it."""

APART_S_MAX = 5
"""By how much decoding and presentation may lie apart, for that to hold all that an edit list
changes."""

HEAD_SAMPLES = 128

LEAD_SAMPLES_MAX = 1000
"""Of a part, how far before it the sample that can be decoded alone is looked for."""


@dataclass(frozen=True, kw_only=True)
class _Edit:
    """From when to when a track is shown, in its ticks, and how much later than it says."""

    start: int
    end: int
    delay: Fraction
    """In seconds."""


class DividedTrack:
    """One track that is cut into parts."""

    def __init__(
        self,
        descriptor: int,
        box: Box,
        *,
        index: Box,
        movie_scale: int,
        is_sound: bool,
        file_end: int,
    ) -> None:
        """Raises Unclear where it is not one that is divided here."""
        self._descriptor = descriptor
        self._box = box
        inner = children(descriptor, box)
        self._media = only(inner, b"mdia")
        media = children(descriptor, self._media)
        self._information = only(media, b"minf")
        self._table = only(children(descriptor, self._information), b"stbl")
        self.tables = SampleTables(descriptor, self._table, index=index, file_end=file_end)
        self._scale = scale_of(body(descriptor, only(media, b"mdhd")))
        if not self._scale:
            raise Unclear
        edit = self._edit(inner, movie_scale)
        start, end = edit.start, edit.end
        self._delay = edit.delay
        tables = self.tables
        if start and not tables.times.is_reordered and (not is_sound or start > self._scale):
            # FFmpeg leaves samples out before the edit, and not their durations (seen with 8.1).
            raise Unclear
        is_plain = tables.chunks.descriptions == 1 or not tables.times.is_reordered
        if not is_plain and start > tables.times.first_shift:
            raise Unclear  # by as many samples as that leaves out, a change is told too late
        if tables.times.apart_ticks > APART_S_MAX * self._scale:
            raise Unclear
        head_time = start + HEAD_S * self._scale
        tail_time = min(end, tables.times.ticks) - HEAD_S * self._scale
        if tail_time <= head_time:
            raise Unclear
        times = tables.times.look((head_time, tail_time))
        try:
            self._head = max(times.by_time[head_time], HEAD_SAMPLES)
            self._tail = min(times.by_time[tail_time], tables.samples - HEAD_SAMPLES)
        except KeyError:
            raise Unclear from None
        if self._tail <= self._head or tables.samples - self._tail > TAIL_SAMPLES_MAX:
            raise Unclear
        tables.times.check_beginning(self._head)
        self._ahead_at = times.ahead_at

    def _edit(self, inner: list[Box], movie_scale: int) -> _Edit:
        """What the edit list (8.6.6) shows of the track. Raises Unclear."""
        edits = [box for box in inner if box.kind == b"edts"]
        if not edits:
            return _Edit(start=0, end=self.tables.times.ticks, delay=Fraction(0))
        data = body(
            self._descriptor, only(children(self._descriptor, only(edits, b"edts")), b"elst")
        )
        wide = data[0] == 1
        width = 8 if wide else 4
        size = 2 * width + 4
        count = int.from_bytes(data[4:8], "big")
        if data[0] > 1 or count == 0 or len(data) != 8 + size * count:
            raise Unclear
        rows = [data[8 + size * row :][:size] for row in range(count)]
        if any(row[width : 2 * width] != b"\xff" * width for row in rows[:-1]):  # not empty
            raise Unclear
        length = int.from_bytes(rows[-1][:width], "big")
        start = int.from_bytes(rows[-1][width : 2 * width], "big", signed=True)
        if start < 0 or not length or not movie_scale or rows[-1][-4:] != b"\0\1\0\0":
            raise Unclear
        empty = sum(int.from_bytes(row[:width], "big") for row in rows[:-1])
        return _Edit(
            start=start,
            end=start + length * self._scale // movie_scale,
            delay=Fraction(empty, movie_scale) - Fraction(start, self._scale),
        )

    def present_until(self) -> Fraction:
        """When the first sample is decoded that the file does not have, about; in seconds."""
        present = self.tables.present
        return Fraction(self.tables.times.marks([present])[present].time, self._scale) + self._delay

    def plan(self, parts: int) -> None:
        """Divide it; chunks are left whole. Raises Unclear."""
        tables = self.tables
        if not tables.present:
            raise Unclear
        step = -(-tables.present // parts)
        starts = [min(step * part, tables.present - 1) for part in range(parts)]
        final = tables.samples - 1
        following = min(tables.present, final)
        chunks = tables.chunks.chunks_of(
            [*starts, self._head, self._tail, *self._around_ahead(), following, final]
        )
        own = [chunks[start] for start in starts]
        leads = [self._lead(chunk.sample) for chunk in own]
        chunks |= tables.chunks.chunks_of(leads)
        head, tail = chunks[self._head], chunks[self._tail]
        low, high = (chunks[sample] for sample in self._around_ahead())
        self._parts: list[tuple[Stretch, ...]] = []
        self._bounds: list[Bounds] = []
        for part, (first, lead) in enumerate(zip(own, leads, strict=True)):
            after = own[part + 1] if part + 1 < parts else None
            # What follows is shown as well: how long a sample lasts, the next one says.
            last = chunks[following] if after is None else after
            wanted = [(chunks[lead], last), (chunks[0], head), (tail, chunks[final])]
            if part == 0:
                wanted.append((low, high))
            self._parts.append(_union(wanted))
            start = tables.chunks.place_of(first.index) if part else 0
            end = None if after is None else tables.chunks.place_of(after.index)
            self._bounds.append(Bounds(start=start, end=end))
        edges = [
            edge
            for stretches in self._parts
            for s in stretches
            for edge in (s.sample, s.sample_end)
        ]
        self._marks: dict[int, Mark] = tables.times.marks(edges)
        self.cut(0)
        self.cut(parts - 1)  # of all, that which lies farthest from the beginning

    def _around_ahead(self) -> tuple[int, int]:
        return max(self._ahead_at - LAGS, 0), self._ahead_at

    def _lead(self, sample: int) -> int:
        found = self.tables.sync_before(sample)
        if sample - found > LEAD_SAMPLES_MAX:
            found = sample
        if found == sample and self.tables.chunks.descriptions > 1:
            found = max(sample - 1, 0)  # FFmpeg tells of another one where it changes
        return found

    def bounds(self, part: int) -> Bounds:
        return self._bounds[part]

    def cut(self, part: int) -> bytes:
        """The track's box with the tables of one part. Raises Unclear."""
        table = self.tables.cut(self._parts[part], self._marks)
        information = self._with(self._information, self._table, table)
        media = self._with(self._media, self._information, information)
        return self._with(self._box, self._media, media)

    def _with(self, box: Box, inner: Box, made: bytes) -> bytes:
        boxes = children(self._descriptor, box)
        return make(box.kind, with_others(self._descriptor, boxes, {inner: made}))


def scale_of(header: bytes) -> int:
    """Ticks a second, of a movie's header or a track's (8.2.2, 8.4.2)."""
    at = 20 if header[0] == 1 else 12
    return int.from_bytes(header[at : at + 4], "big")


def _union(wanted: list[tuple[Chunk, Chunk]]) -> tuple[Stretch, ...]:
    """Chunks from one up to and with another, in order, none of them twice."""
    found: list[Stretch] = []
    for first, last in sorted(wanted, key=lambda pair: pair[0].index):
        made = Stretch(
            chunk=first.index,
            chunk_end=last.index + 1,
            sample=first.sample,
            sample_end=last.sample_end,
        )
        if found and made.chunk <= found[-1].chunk_end:
            before = found.pop()
            made = replace(
                made,
                chunk=before.chunk,
                chunk_end=max(made.chunk_end, before.chunk_end),
                sample=before.sample,
                sample_end=max(made.sample_end, before.sample_end),
            )
        found.append(made)
    return tuple(found)
