"""A long MP4 file opened part by part, and read as if it were open as a whole."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipeline.media.container import open_container
from pipeline.media.mp4.boxes import Unclear
from pipeline.media.mp4.fragments import Fragments
from pipeline.media.mp4.parts import Parts

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream

    from pipeline.media.mp4.part import Divided

CODECS = frozenset(
    {"h264", "hevc", "vp9", "av1", "libdav1d", "aac", "opus", "libopus", "alac", "flac"}
)
"""Whose packets do not depend on those read before them."""


def find_parts(path: str) -> Divided | None:
    """How a file is divided; None where it is opened as a whole."""
    for divided in (Parts, Fragments):
        try:
            return divided(path)
        except (Unclear, OSError, LookupError, ValueError, struct.error):
            continue  # of what is cut short, a number is read where there is none
    return None


class Parted:
    """Stands in for a container: it answers as its first part does, and gives all packets."""

    def __init__(self, path: str, parts: Divided, *, only_track: int | None = None) -> None:
        self._path = path
        self._parts = parts
        self._only_track = only_track
        self._number = 0
        self._part = parts.part(0, only_track=only_track)
        self._first = open_container(path, view=self._part.view)
        self._open: InputContainer | None = self._first
        self._left: set[int] = set()
        self._begin()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def __enter__(self) -> Parted:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_plain(self) -> bool:
        """Whether the streams are those that were divided, of kinds that can be."""
        if len(self._first.streams) != len(self._part.bounds):
            return False
        for stream, bounds in zip(self._first.streams, self._part.bounds, strict=True):
            context: Any = stream.codec_context
            is_played = stream.type in ("audio", "video")
            if is_played != (bounds is not None):
                return False
            if is_played and (context is None or context.name not in CODECS):
                return False
        return True

    def demux(self, *_: Stream) -> Iterator[Packet[Stream]]:
        """The packets of sound and pictures. After an error, a fresh call reads on."""
        while self._open is not None:
            for packet in self._open.demux():
                index = packet.stream_index
                bounds = self._part.bounds[index]
                place = packet.pos
                if bounds is None or place is None or place < bounds.start:
                    continue
                if bounds.end is not None and place >= bounds.end:
                    self._left.discard(index)
                    if not self._left:
                        break
                    continue
                if self._part.only is not None:
                    if index != self._part.only:
                        continue
                    packet.stream = self._first.streams[0]
                yield packet
            self._next()

    def close(self) -> None:
        if self._open is not None and self._open is not self._first:
            self._open.close()
        self._open = None
        self._first.close()

    def _next(self) -> None:
        if self._open is not None and self._open is not self._first:
            self._open.close()
        self._open = None
        self._number += 1
        if self._number < self._parts.count:
            self._part = self._parts.part(self._number, only_track=self._only_track)
            self._open = open_container(self._path, view=self._part.view)
            self._begin()

    def _begin(self) -> None:
        self._left = {i for i, bounds in enumerate(self._part.bounds) if bounds is not None}
