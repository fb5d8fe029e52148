"""An MP4 file that shows one of its tracks, so that only that one's index is held in memory."""

from __future__ import annotations

from pathlib import Path

from pipeline.media.container import read_boxes
from pipeline.media.patched import PASSED_OVER, Patched

TRACKS_MAX = 64
"""Tracks of an index that are looked for: of streams, no more are accepted by default."""


def find_tracks(path: str) -> tuple[int, ...]:
    """Where in the file each track's box names its kind, in order; none where that is not clear.

    A track of a fragmented file is indexed while it is read, and stays as it is.
    """
    boxes = read_boxes(path)
    if boxes is None or boxes.moov is None or boxes.is_cut or b"moof" in boxes.kinds:
        return ()
    start, length = boxes.moov
    found = []
    with Path(path).open("rb") as file:
        at, end = start + 8, start + length
        while at + 8 <= end:
            file.seek(at)
            head = file.read(8)
            size, kind = int.from_bytes(head[:4], "big"), head[4:8]
            if size < 8 or at + size > end or kind in (b"mvex", b"cmov"):
                return ()
            if kind == b"trak":
                found.append(at + 4)
            at += size
    return tuple(found) if len(found) <= TRACKS_MAX else ()


class OneTrack(Patched):
    """Reads the file as if it had no other track."""

    def __init__(self, path: str, tracks: tuple[int, ...], index: int) -> None:
        others = tracks[:index] + tracks[index + 1 :]
        super().__init__(path, [(kind_at, PASSED_OVER) for kind_at in others])
