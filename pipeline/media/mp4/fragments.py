"""A long fragmented MP4 file shown part by part; FFmpeg reads every fragment's index at its start.

What it is not shown is passed over as one box that begins where the first fragment left out begins.
Those at the beginning and at the end are always there: FFmpeg moves all times by as much as one is
presented before it is decoded, as far as it has read, and tells by the end how long the file is.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.media.container import walk_boxes
from pipeline.media.mp4.boxes import Box, Unclear, body, children, only, read_at
from pipeline.media.mp4.fragment import Defaults, read_fragment, read_segments
from pipeline.media.mp4.part import (
    FROM_SAMPLES,
    PART_SAMPLES,
    SAMPLES_MAX,
    TAIL_SAMPLES_MAX,
    Bounds,
    Part,
)
from pipeline.media.mp4.sample_tables import count_descriptions
from pipeline.media.patched import PASSED_OVER, Patched

KINDS = frozenset(
    {b"ftyp", b"styp", b"moov", b"sidx", b"moof", b"mdat", b"free", b"skip", b"wide", b"mfra"}
)

HEAD_SAMPLES_MAX = 5000
"""Of the beginning, up to the fragment that moves times the most."""

FRAGMENT_BYTES_MAX = 1024**2
"""Of one fragment's own index: some ten thousand samples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fragment:
    """Where in the file one lies: from the boxes that lead up to it, to the end of its samples."""

    begun: int
    at: int
    end: int


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
        """One part of all tracks, or of one that is sound or pictures, as if it had no other.

        The last one of a file that is cut shows all: FFmpeg stops at the first sample of any track
        that is missing.
        """
        span = self._spans[number]
        only = None
        if self._is_cut and number + 1 == self.count:
            only, only_track = only_track, None
        patches: list[tuple[int, bytes]] = []
        if span.lead > self._head_end:
            patches.append(_passing_over(self._head_end, span.lead))
        shown_end = max(span.shown_end, self._head_end)
        if shown_end < self._tail:
            patches.append(_passing_over(shown_end, self._tail))
        bounds: list[Bounds | None] = []
        for index, (at, is_played) in enumerate(self._tracks):
            if only_track not in (None, index):
                patches.append((at + 4, PASSED_OVER))
            else:
                bounds.append(Bounds(start=span.start, end=span.end) if is_played else None)
        return Part(view=Patched(self._path, patches), bounds=tuple(bounds), only=only)

    def _read(self) -> None:
        index = None
        found: list[_Fragment] = []
        segments: list[tuple[int, int]] = []
        begun = reached = 0
        before = b""
        for kind, at, length in walk_boxes(self._path, self._size):
            if kind not in KINDS or (kind == b"moov" and (index is not None or found)):
                raise Unclear
            if before in (b"mdat", b"moof") and kind != b"mdat":
                begun = at
            if kind == b"moov":
                index = Box(kind=kind, at=at, size=length)
            elif kind == b"sidx":
                segments.append((len(found), at))
            elif kind == b"moof":
                found.append(_Fragment(begun=begun, at=at, end=at))
            elif kind == b"mdat" and found:
                if before != b"moof" and segments:
                    raise Unclear
                found[-1] = replace(found[-1], end=at + length)
            reached = at + length
            before = kind
        self._is_cut = reached > self._size and before in (b"mdat", b"mfra")
        if index is None or len(found) < 3 or (reached != self._size and not self._is_cut):
            raise Unclear
        self._has_segments = bool(segments)
        self._tracks: list[tuple[int, bool]] = []
        self._defaults: dict[int, Defaults] = {}
        self._read_index(index)
        self._divide(found, self._last_segments(segments))

    def _last_segments(self, segments: list[tuple[int, int]]) -> set[int]:
        """The fragments before which the last segment's index of a track lies."""
        last: dict[int, int] = {}
        for number, at in segments:
            track = read_segments(self._bytes(at))
            if track not in self._defaults:
                raise Unclear
            if number:
                last[track] = number
        return set(last.values())

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
        is_one = count_descriptions(body(self._descriptor, only(table, b"stsd"))) == 1
        for kind in (b"stts", b"stsz", b"stco"):
            box = only(table, kind)
            is_one &= not any(read_at(self._descriptor, box.at + 12, box.size - 12))
        if not is_one:
            raise Unclear
        return True

    def _divide(self, found: list[_Fragment], last_segments: set[int]) -> None:
        samples = 0
        starts = [0]
        begun = moved = 0
        counted: list[int] = []
        last: dict[int, int] = {}
        reached: dict[int, int] = {}
        before: dict[int, int] = {}
        for number, fragment in enumerate(found):
            if samples - begun >= PART_SAMPLES:
                starts.append(number)
                begun = samples
            counted.append(samples)
            data = self._bytes(fragment.at)
            for share in read_fragment(
                data, at=fragment.at, end=fragment.end, defaults=self._defaults
            ):
                if share.time <= reached.get(share.track, -1):
                    raise Unclear  # FFmpeg leaves out what overlaps
                if share.before > before.get(share.track, 0):
                    before[share.track] = share.before
                    moved = number
                last[share.track] = number
                reached[share.track] = share.last_time
                samples += share.samples
        if not FROM_SAMPLES <= samples <= SAMPLES_MAX or not last:
            raise Unclear
        tail = min(last_segments.union(last.values()))
        if tail == len(found) or samples - counted[tail] > TAIL_SAMPLES_MAX:
            raise Unclear
        places = [*(fragment.begun for fragment in found), self._size]
        counted.append(samples)
        if counted[moved] > HEAD_SAMPLES_MAX or (moved and self._has_segments):
            raise Unclear  # by an index of segments FFmpeg reads on only when it needs to
        self._head_end, self._tail = places[moved + 1], places[tail]
        ends = [*starts[1:], len(found)]
        self._spans = [
            _Span(
                lead=places[max(start - 1, 0)],
                start=places[start] if start else 0,
                end=places[end] if end < len(found) else None,
                shown_end=places[min(end + 1, len(found))],
            )
            for start, end in zip(starts, ends, strict=True)
        ]
        self.count = len(starts)
        if self._is_cut and self.count == 1:
            raise Unclear

    def _bytes(self, at: int) -> bytes:
        """A box of which all is looked at."""
        size = int.from_bytes(read_at(self._descriptor, at, 4), "big")
        if size > FRAGMENT_BYTES_MAX:
            raise Unclear
        return read_at(self._descriptor, at, size)


def _passing_over(start: int, end: int) -> tuple[int, bytes]:
    """What stands at `start` so that nothing is read up to `end`."""
    return start, (1).to_bytes(4, "big") + PASSED_OVER + (end - start).to_bytes(8, "big")
