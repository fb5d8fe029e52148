"""One part of a long file: what it is opened from, and which of its packets are its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pipeline.media.patched import Patched

FROM_SAMPLES = 100_000
"""From less than an hour on; the index of a shorter file takes a few megabytes at most."""

SAMPLES_MAX = 20_000_000
"""A file of more, as 460 a second over twelve hours, is opened as a whole."""

PART_SAMPLES = 30_000
"""Of all tracks: some ten minutes, and 2 MB while it is opened."""

TAIL_SAMPLES_MAX = 20_000
"""Of the end, which every part shows as well."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where in the file the samples of a part lie: from an offset on, up to another."""

    start: int
    end: int | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one part is opened from, and which of its samples, by stream, are the part's own."""

    view: Patched
    bounds: tuple[Bounds | None, ...]
    """None for a stream that is neither sound nor picture."""
    only: int | None = None
    """The one stream that is wanted of those that are shown."""


class Divided(Protocol):
    """A file of several parts."""

    @property
    def count(self) -> int: ...

    def part(self, number: int, *, only_track: int | None = None) -> Part:
        """One part of all tracks, or of one that is sound or pictures, as if it had no other."""
