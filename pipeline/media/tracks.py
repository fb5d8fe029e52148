"""Opens one stream of a file at a time, in a container and with a decoder of its own."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pipeline.errors import RecordingRefused
from pipeline.media.container import open_container
from pipeline.media.data_chunk import patches_of_whole
from pipeline.media.joined import patches_of_all
from pipeline.media.mp4.one_track import OneTrack, find_tracks
from pipeline.media.mp4.parted import Parted, find_parts
from pipeline.media.patched import Patched
from pipeline.media.sound import STORED_TIMES
from pipeline.media.track import THREADS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from av.container import InputContainer

    from pipeline.media.mp4.part import Divided
    from pipeline.media.scanned import Scan
    from pipeline.settings import MediaLimits

PACKETS_OF_LONG = 250_000
"""From about an hour on, an index in memory is worth sharing out: FFmpeg's takes 40 bytes of each
packet of every track, twice, where each pass has the whole."""


RACING = frozenset({"theora", "vp3", "vp4"})
"""Where FFmpeg's threads race (8.1.1, vp3.c): on a busy machine one read in forty of a Theora file
had other pictures than the rest. Some 25 other decoders had the same ones each time."""


def count_threads() -> int:
    """One more than the cores that this process may use, so that none waits for the next packet."""
    if not hasattr(os, "sched_getaffinity"):
        return THREADS_MAX
    return min(THREADS_MAX, len(os.sched_getaffinity(0)) + 1)


class Tracks:
    """Of one file that was scanned."""

    def __init__(self, path: str, limits: MediaLimits) -> None:
        self._path = path
        self._limits = limits
        self._has_stored_times = False
        self._places: tuple[int, ...] = ()
        """Where the tracks of a long MP4 file are, of which each pass is shown its own."""
        self._parts: Divided | None = None
        """How a long MP4 file is read part by part; where it can be, that is all it needs."""
        self._patches: list[tuple[int, bytes]] = []
        """What FFmpeg is shown in place of some bytes, so that it reads all of the file."""

    def open_all(self, *, pulse: Callable[[], None]) -> InputContainer:
        """The file, which was checked, with all its streams. Raises RecordingRefused."""
        self._parts = find_parts(self._path)
        if self._parts is not None:
            with suppress(RecordingRefused):  # what the whole has to say counts
                parted = Parted(self._path, self._parts)
                if parted.is_plain:
                    return cast("InputContainer", parted)
                parted.close()
            self._parts = None
        self._patches = patches_of_whole(self._path) or patches_of_all(self._path, pulse=pulse)
        return open_container(self._path, view=self._view())

    def learn(self, container: InputContainer, scan: Scan) -> None:
        """How the file is to be opened from now on."""
        self._has_stored_times = container.format.name in STORED_TIMES
        if (
            self._parts is None
            and sum(found.packets for found in scan.streams.values()) > PACKETS_OF_LONG
        ):
            places = find_tracks(self._path)
            self._places = places if len(places) == len(container.streams) else ()

    def open(
        self, index: int, *, is_sound: bool = False, is_strict: bool = False
    ) -> tuple[InputContainer, Any]:
        """A container, and the stream of this index in it; a strict decoder stops at any fault."""
        if self._parts is not None:
            container = cast("InputContainer", Parted(self._path, self._parts, only_track=index))
            stream: Any = container.streams[0]
        elif self._places:
            view = OneTrack(self._path, self._places, index)
            container = open_container(self._path, view=view)
            stream = container.streams[0]
        else:
            container = open_container(
                self._path,
                has_stored_times_only=is_sound and self._has_stored_times,
                view=self._view(),
            )
            stream = container.streams[index]
        if stream.type == "video":
            self._set_up(stream.codec_context, is_strict=is_strict)
        return container, stream

    def decoder(self, index: int) -> Any:
        """One more decoder of a stream of pictures, as its container sets it up."""
        container, stream = self.open(index)
        context = stream.codec_context
        container.close()
        return context

    def _view(self) -> Patched | None:
        return Patched(self._path, self._patches) if self._patches else None

    def _set_up(self, context: Any, *, is_strict: bool) -> None:
        context.thread_type = "AUTO"
        context.thread_count = 1 if context.name in RACING else count_threads()
        context.options = {"max_pixels": str(self._limits.frame_pixels)}
        if is_strict:
            context.options |= {"err_detect": "explode"}
