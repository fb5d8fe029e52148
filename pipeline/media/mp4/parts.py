"""A long MP4 file shown part by part, so that no more than one part's index is held in memory.

FFmpeg holds an index of all samples of a file that it has opened, of 40 bytes each and twice as
much while it opens it. Here it is shown an index of some chunks, each sample at the place and time
that it has in the whole: of the beginning, by which FFmpeg tells where times begin, of the end, by
which it tells where they end, and of the part that is wanted between them.
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

from pipeline.media.container import walk_boxes
from pipeline.media.mp4.boxes import (
    HEAD_BYTES,
    Box,
    Unclear,
    body,
    children,
    make,
    only,
    read_at,
    with_others,
)
from pipeline.media.mp4.divided_track import DividedTrack, scale_of
from pipeline.media.mp4.part import (
    FROM_SAMPLES,
    PART_SAMPLES,
    SAMPLES_MAX,
    Bounds,
    Part,
)
from pipeline.media.patched import PASSED_OVER, Patched

TRACKS_MAX = 64

CUT_APART_S = Fraction(7, 10)
"""By how much the tracks of a file that is cut may end at different times. FFmpeg reads tracks by
their places in the file while they are within a second of each other, and else by their times; it
stops at the first sample that is missing.
"""


class Parts:
    """How a long MP4 file is divided."""

    def __init__(self, path: str) -> None:
        """Raises Unclear where the file is short, or its index is not taken to pieces here."""
        self._path = path
        self._index, self._end = _index(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._is_cut = self._end > os.fstat(self._descriptor).st_size
        self.count = 0
        self._boxes = children(self._descriptor, self._index)
        if any(box.kind in (b"mvex", b"cmov") for box in self._boxes):
            raise Unclear
        scale = scale_of(body(self._descriptor, only(self._boxes, b"mvhd")))
        boxes = [box for box in self._boxes if box.kind == b"trak"]
        if len(boxes) > TRACKS_MAX:
            raise Unclear
        self.tracks = tuple(self._track(box, movie_scale=scale) for box in boxes)
        samples = sum(track.tables.samples for track in self.tracks if track is not None)
        if not FROM_SAMPLES <= samples <= SAMPLES_MAX:
            raise Unclear
        if self._is_cut:
            samples = self._check_cut()
        count = -(-samples // PART_SAMPLES)
        for track in self.tracks:
            if track is not None:
                track.plan(count)
        self.count = count
        if self._is_cut:
            for number in range(count):
                self._in_place(number, None)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def part(self, number: int, *, only_track: int | None = None) -> Part:
        """One part of all tracks, or of one that is sound or pictures, as if it had no other."""
        if self._is_cut:
            patch, bounds = self._in_place(number, only_track)
            return Part(view=Patched(self._path, [patch]), bounds=bounds)
        index, bounds = self._cut(number, only_track)
        patch = self._index.at + 4, PASSED_OVER
        return Part(view=Patched(self._path, [patch], tail=index), bounds=bounds)

    def _check_cut(self) -> int:
        """How many samples are left. Raises Unclear unless all tracks end together."""
        tracks = [track for track in self.tracks if track is not None]
        missing = [t.present_until() for t in tracks if t.tables.present < t.tables.samples]
        if len(tracks) < len(self.tracks):
            raise Unclear
        latest = max(track.present_until() for track in tracks)
        if missing and latest - min(missing) > CUT_APART_S:
            raise Unclear
        return sum(track.tables.present for track in tracks)

    def _in_place(
        self, number: int, only_track: int | None
    ) -> tuple[tuple[int, bytes], tuple[Bounds | None, ...]]:
        """The index of a part where that of all was. Raises Unclear where it does not fit.

        What is cut off is missed then as in the whole: nothing follows the file's end.
        """
        index, bounds = self._cut(number, only_track)
        left = self._index.size - len(index)
        if left < HEAD_BYTES:
            raise Unclear
        return (self._index.at, index + left.to_bytes(4, "big") + PASSED_OVER), bounds

    def _cut(self, number: int, only_track: int | None) -> tuple[bytes, tuple[Bounds | None, ...]]:
        """The index of one part, and which samples are the part's own."""
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
        return make(b"moov", with_others(self._descriptor, boxes, made)), tuple(bounds)

    def _track(self, box: Box, *, movie_scale: int) -> DividedTrack | None:
        media = only(children(self._descriptor, box), b"mdia")
        handler = body(self._descriptor, only(children(self._descriptor, media), b"hdlr"))[8:12]
        if handler not in (b"vide", b"soun"):
            return None
        return DividedTrack(
            self._descriptor,
            box,
            index=self._index,
            movie_scale=movie_scale,
            is_sound=handler == b"soun",
            file_end=self._end,
        )


def _index(path: str) -> tuple[Box, int]:
    """The one index of a file that is not written in fragments, and where its boxes end.

    That is the file's own end, or beyond it where samples that follow the index are cut off.
    """
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
    if index is None or (reached != size and (kind != b"mdat" or reached < size)):
        raise Unclear
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for at in (index.at, last):  # neither of a longer head, nor open towards the end
            head = int.from_bytes(read_at(descriptor, at, 4), "big")
            if head == 0 or (at == index.at and head != index.size):
                raise Unclear
    finally:
        os.close(descriptor)
    return index, reached
