"""A long fragmented MP4 file shown part by part; FFmpeg reads every fragment's index at its start.

What it is not shown is passed over as one box that begins where the first fragment left out begins.
The fragments at the end are always there: by them FFmpeg tells how long the file is.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.media.container import walk_boxes
from pipeline.media.mp4.boxes import Box, Unclear, body, children, only, read_at
from pipeline.media.mp4.fragment import Defaults, TrackFragment, read_fragment
from pipeline.media.mp4.numbers import INTEGERS
from pipeline.media.mp4.part import (
    FROM_SAMPLES,
    PART_SAMPLES,
    SAMPLES_MAX,
    TAIL_SAMPLES_MAX,
    Bounds,
    Part,
)
from pipeline.media.mp4.patched import PASSED_OVER, Patched
from pipeline.media.mp4.sample_tables import FORMATS

KINDS = frozenset({b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"mfra"})


FRAGMENT_BYTES_MAX = 1024**2
"""Of one fragment's own index: some ten thousand samples."""


@dataclass(frozen=True, kw_only=True)
class _Span:
    """What a part shows besides the tail: from a fragment before it up to the one after it."""

    lead: int
    start: int
    end: int | None
    """None for the last part."""
    shown_end: int


class Fragments:
    """How a long fragmented MP4 file is divided."""

    def __init__(self, path: str) -> None:
        """Raises Unclear where the file is short, or its fragments are not plain to see."""
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._size = Path(path).stat().st_size
            self._read()
        finally:
            os.close(self._descriptor)

    def part(self, number: int, *, only_track: int | None = None) -> Part:
        """One part of all tracks, or of one that is sound or pictures, as if it had no other."""
        span = self._spans[number]
        patches: list[tuple[int, bytes]] = []
        if number and span.lead > self._first:
            patches.append(_passing_over(self._first, span.lead))
        if span.shown_end < self._tail:
            patches.append(_passing_over(span.shown_end, self._tail))
        bounds: list[Bounds | None] = []
        for index, (at, is_played) in enumerate(self._tracks):
            if only_track not in (None, index):
                patches.append((at + 4, PASSED_OVER))
            else:
                bounds.append(Bounds(start=span.start, end=span.end) if is_played else None)
        return Part(view=Patched(self._path, patches), bounds=tuple(bounds))

    def _read(self) -> None:
        index = None
        fragments: list[int] = []
        reached = 0
        for kind, at, length in walk_boxes(self._path, self._size):
            if kind not in KINDS or (kind == b"moov" and (index is not None or fragments)):
                raise Unclear
            if kind == b"moov":
                index = Box(kind=kind, at=at, size=length)
            elif kind == b"moof":
                fragments.append(at)
            reached = at + length
        if index is None or len(fragments) < 3 or reached != self._size:
            raise Unclear
        self._first = fragments[0]
        self._tracks: list[tuple[int, bool]] = []
        self._defaults: dict[int, Defaults] = {}
        self._read_index(index)
        self._divide(np.array([*fragments, self._size], np.int64))

    def _read_index(self, index: Box) -> None:
        boxes = children(self._descriptor, index)
        for box in children(self._descriptor, only(boxes, b"mvex")):
            if box.kind == b"trex":
                data = body(self._descriptor, box)
                track, _, duration, size = struct.unpack_from(">IIII", data, 4)
                self._defaults[track] = Defaults(duration=duration, size=size)
        for box in boxes:
            if box.kind == b"trak":
                self._tracks.append((box.at, self._is_played(box)))

    def _is_played(self, track: Box) -> bool:
        media = children(self._descriptor, only(children(self._descriptor, track), b"mdia"))
        if body(self._descriptor, only(media, b"hdlr"))[8:12] not in (b"vide", b"soun"):
            return False
        information = children(self._descriptor, only(media, b"minf"))
        table = children(self._descriptor, only(information, b"stbl"))
        formats = body(self._descriptor, only(table, b"stsd"))
        is_one = formats[4:8] == b"\0\0\0\1" and formats[12:16] in FORMATS
        for kind in (b"stts", b"stsz", b"stco"):
            box = only(table, kind)
            is_one &= not any(read_at(self._descriptor, box.at + 12, box.size - 12))
        if not is_one:
            raise Unclear
        return True

    def _divide(self, places: INTEGERS) -> None:
        samples = 0
        starts = [0]
        begun = 0
        last: dict[int, tuple[int, int]] = {}
        reached: dict[int, int] = {}
        for number in range(len(places) - 1):
            if samples - begun >= PART_SAMPLES:
                starts.append(number)
                begun = samples
            at, end = int(places[number]), int(places[number + 1])
            for found in self._fragment(at, end):
                if found.time <= reached.get(found.track, -1):
                    raise Unclear  # FFmpeg leaves out what overlaps
                last[found.track] = number, samples
                reached[found.track] = found.last_time
                samples += found.samples
        if not FROM_SAMPLES <= samples <= SAMPLES_MAX or not last:
            raise Unclear
        tail, before = min(last.values())
        if samples - before > TAIL_SAMPLES_MAX:
            raise Unclear
        self._tail = int(places[tail])
        ends = [*starts[1:], len(places) - 1]
        self._spans = [
            _Span(
                lead=int(places[max(start - 1, 0)]),
                start=int(places[start]) if start else 0,
                end=int(places[end]) if end < len(places) - 1 else None,
                shown_end=int(places[min(end + 1, len(places) - 1)]),
            )
            for start, end in zip(starts, ends, strict=True)
        ]
        self.count = len(starts)

    def _fragment(self, at: int, end: int) -> list[TrackFragment]:
        size = int.from_bytes(read_at(self._descriptor, at, 4), "big")
        if size > FRAGMENT_BYTES_MAX:
            raise Unclear
        data = read_at(self._descriptor, at, size)
        return read_fragment(data, at=at, end=end, defaults=self._defaults)


def _passing_over(start: int, end: int) -> tuple[int, bytes]:
    """What stands at `start` so that nothing is read up to `end`."""
    return start, (1).to_bytes(4, "big") + PASSED_OVER + (end - start).to_bytes(8, "big")
