"""A long MP4 file shown part by part, so that no more than one part's index is held in memory.

FFmpeg holds an index of all samples of a file that it has opened, of 40 bytes each and twice as
much while it opens it. Here it is shown an index of some chunks, each sample at the place and time
that it has in the whole: of the beginning, by which FFmpeg tells where times begin, of the end, by
which it tells where they end, and of the part that is wanted between them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pipeline.media.container import walk_boxes
from pipeline.media.mp4.boxes import Box, Unclear, body, children, make, only, read_at, with_others
from pipeline.media.mp4.chunks import Chunk, Stretch
from pipeline.media.mp4.part import (
    FROM_SAMPLES,
    PART_SAMPLES,
    SAMPLES_MAX,
    TAIL_SAMPLES_MAX,
    Bounds,
    Part,
)
from pipeline.media.mp4.patched import PASSED_OVER, Patched
from pipeline.media.mp4.sample_tables import SampleTables
from pipeline.media.mp4.sample_times import LAGS, Mark

HEAD_S = 20
"""What is shown of the beginning, after what an edit list leaves out, and of the end before it."""

AHEAD_S_MAX = 5
"""By how much presentation may follow decoding, for that to hold all that an edit list changes."""

HEAD_SAMPLES = 128

LEAD_SAMPLES_MAX = 1000
"""Of a part, how far before it the sample that can be decoded alone is looked for."""

TRACKS_MAX = 64


class _Track:
    """One track that is cut into parts."""

    def __init__(self, descriptor: int, box: Box, *, movie_scale: int, is_sound: bool) -> None:
        self._descriptor = descriptor
        self._box = box
        inner = children(descriptor, box)
        self._media = only(inner, b"mdia")
        media = children(descriptor, self._media)
        self._information = only(media, b"minf")
        self._table = only(children(descriptor, self._information), b"stbl")
        self.tables = SampleTables(descriptor, self._table)
        self._scale = _scale(body(descriptor, only(media, b"mdhd")))
        start, end = self._edit(inner, movie_scale)
        tables = self.tables
        if start and not tables.times.is_reordered and (not is_sound or start > self._scale):
            # FFmpeg leaves samples out before the edit, and not their durations (seen with 8.1).
            raise Unclear
        if tables.times.ahead_ticks > AHEAD_S_MAX * self._scale:
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
        self._ahead_at = times.ahead_at

    def _edit(self, inner: list[Box], movie_scale: int) -> tuple[int, int]:
        """From when to when the edit list (8.6.6) shows the track, in its ticks. Raises Unclear."""
        edits = [box for box in inner if box.kind == b"edts"]
        if not edits:
            return 0, self.tables.times.ticks
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
        return start, start + length * self._scale // movie_scale

    def plan(self, parts: int) -> None:
        """Divide it; chunks are left whole."""
        tables = self.tables
        step = -(-tables.samples // parts)
        starts = [min(step * part, tables.samples - 1) for part in range(parts)]
        chunks = tables.chunks.chunks_of(
            [*starts, self._head, self._tail, *self._around_ahead(), tables.samples - 1]
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
            last = chunks[tables.samples - 1] if after is None else after
            wanted = [(chunks[lead], last), (chunks[0], head), (tail, chunks[tables.samples - 1])]
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
        return found if sample - found <= LEAD_SAMPLES_MAX else sample

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


class Parts:
    """How a long MP4 file is divided."""

    def __init__(self, path: str) -> None:
        """Raises Unclear where the file is short, or its index is not taken to pieces here."""
        self._path = path
        self._index = _index(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.count = 0
        self._boxes = children(self._descriptor, self._index)
        if any(box.kind in (b"mvex", b"cmov") for box in self._boxes):
            raise Unclear
        scale = _scale(body(self._descriptor, only(self._boxes, b"mvhd")))
        boxes = [box for box in self._boxes if box.kind == b"trak"]
        if len(boxes) > TRACKS_MAX:
            raise Unclear
        self.tracks = tuple(self._track(box, movie_scale=scale) for box in boxes)
        samples = sum(track.tables.samples for track in self.tracks if track is not None)
        if not FROM_SAMPLES <= samples <= SAMPLES_MAX:
            raise Unclear
        count = -(-samples // PART_SAMPLES)
        for track in self.tracks:
            if track is not None:
                track.plan(count)
        self.count = count

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def part(self, number: int, *, only_track: int | None = None) -> Part:
        """One part of all tracks, or of one that is sound or pictures, as if it had no other."""
        boxes: list[Box] = []
        made: dict[Box, bytes] = {}
        bounds: list[Bounds | None] = []
        index = -1
        for box in self._boxes:
            if box.kind == b"trak":
                index += 1
                if only_track not in (None, index):
                    continue
                track = self.tracks[index]
                if track is not None:
                    made[box] = track.cut(number)
                bounds.append(None if track is None else track.bounds(number))
            boxes.append(box)
        tail = make(b"moov", with_others(self._descriptor, boxes, made))
        view = Patched(self._path, [(self._index.at + 4, PASSED_OVER)], tail=tail)
        return Part(view=view, bounds=tuple(bounds))

    def _track(self, box: Box, *, movie_scale: int) -> _Track | None:
        media = only(children(self._descriptor, box), b"mdia")
        handler = body(self._descriptor, only(children(self._descriptor, media), b"hdlr"))[8:12]
        if handler not in (b"vide", b"soun"):
            return None
        return _Track(self._descriptor, box, movie_scale=movie_scale, is_sound=handler == b"soun")


def _index(path: str) -> Box:
    """The one index of a file that ends where its boxes do, and is not written in fragments."""
    size = Path(path).stat().st_size
    reached = 0
    index = None
    for kind, at, length in walk_boxes(path, size):
        if kind == b"moov":
            if index is not None:
                raise Unclear
            index = Box(kind=kind, at=at, size=length)
        elif kind in (b"moof", b"sidx") or (
            index is not None and kind not in (b"mdat", b"free", b"skip", b"wide")
        ):
            raise Unclear
        reached = at + length
        last = at
    if index is None or reached != size:
        raise Unclear
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for at in (index.at, last):  # neither of a longer head, nor open towards the end
            head = int.from_bytes(read_at(descriptor, at, 4), "big")
            if head == 0 or (at == index.at and head != index.size):
                raise Unclear
    finally:
        os.close(descriptor)
    return index


def _scale(header: bytes) -> int:
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
