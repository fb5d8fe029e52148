"""A recording that says itself what is in it, for jobs that need no decoder."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.media_child import MediaChild
from pipeline.records import Frame, MediaEnd, MediaEvent, Probe, Unit
from tests import units

MARK = b"scripted recording of units: "

SCENE_UNITS = 3
"""The picture changes so often, and each change is a finding of the rehearsal."""


def recording(count: int) -> bytes:
    return MARK + str(count).encode()


def open_media(path: Path, **given: Any) -> MediaChild | ScriptedMedia:
    """The media process itself for a recording of the usual kind."""
    content = path.open("rb").read(len(MARK) + 8)
    if not content.startswith(MARK):
        return MediaChild(path, **given)
    return ScriptedMedia(int(content.removeprefix(MARK)), start_s=given.get("start_s", 0))


class ScriptedMedia:
    """Gives what MediaChild gives."""

    def __init__(self, count: int, *, start_s: int) -> None:
        self._count = count
        self._start_s = start_s

    def __enter__(self) -> ScriptedMedia:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def kill(self) -> None:
        """There is no process, and the next unit is never waited for."""

    def __iter__(self) -> Iterator[MediaEvent]:
        end_ms = self._count * 1000
        yield Probe(
            format="scripted",
            size_bytes=1,
            origin_ms=0,
            declared_duration_ms=end_ms,
            packet_end_ms=end_ms,
            streams=(),
        )
        for second in range(self._start_s, self._count):
            yield _unit(second)
        fed = max(self._count - self._start_s, 0)
        yield MediaEnd(
            source_end_ms=end_ms,
            units=fed,
            real_samples=16_000 * fed,
            filled_samples=0,
            synthetic_samples=0,
            own_frames=fed,
            held_frames=0,
            clipped_samples=0,
            replaced_samples=0,
            remarks=(),
        )


def _unit(second: int) -> Unit:
    grey = 60 + 40 * (second // SCENE_UNITS % 4)
    return units.unit(second, pcm=_tone(), frame=_picture(grey, second * 1000))


@functools.cache
def _tone() -> bytes:
    return units.tone()


@functools.lru_cache(maxsize=16)
def _picture(grey: int, source_ms: int) -> Frame:
    return units.picture(grey, source_ms=source_ms)
