"""When packets are decoded, of pictures of which a file says only when they are presented."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.media.joints import REORDERED_MAX, Place


@dataclass(frozen=True, kw_only=True)
class Dated:
    """A packet with its times, in µs."""

    place: Place
    time: int
    """Of decoding, where that is known."""
    duration: int
    is_key: bool
    is_shown: bool = False
    """Whether the time is that of presentation."""


class DecodeOrder:
    """Gives packets their times of presentation in rising order, the first the earliest.

    So pictures are decoded that are held back until the next one is there. FFmpeg's own guess is
    made of the last packets, and runs back and forth where one part of a file follows another.
    """

    def __init__(self) -> None:
        self._waiting: deque[Dated] = deque()
        self._given: int | None = None
        self._ahead: list[int] = []
        """Times that were given to packets before the one that has them."""
        self._behind: list[int] = []
        """Times of packets that were given an earlier one."""

    def push(self, packet: Dated) -> Iterator[Dated]:
        """Take in the next packet; gives the one that no picture can come before any more."""
        self._waiting.append(packet)
        if len(self._waiting) > REORDERED_MAX + 1:
            yield self._next()

    def finish(self) -> Iterator[Dated]:
        """The rest."""
        while self._waiting:
            yield self._next()

    def _next(self) -> Dated:
        packet = self._waiting.popleft()
        shown = packet.place.shown
        if shown in self._ahead:
            self._ahead.remove(shown)
        elif self._given is not None and shown < self._given:
            # A new part, or a time that is wrong.
            self._given, self._behind, self._ahead = None, [shown], []
        else:
            self._behind.append(shown)
        following = self._following(shown)
        if len(following) > REORDERED_MAX and max(following) < shown:
            self._behind.remove(shown)  # reordering does not reach so far: it is wrong
            return replace(packet, time=shown)
        for time in self._ahead:
            if time in following:
                following.remove(time)
        self._given = min((*self._behind, *following))
        if self._given in self._behind:
            self._behind.remove(self._given)
        else:
            self._ahead.append(self._given)
        return replace(packet, time=self._given)

    def _following(self, before: int) -> list[int]:
        """Times of the next packets, up to the next part: none is presented after a key picture
        and decoded before it. Looked at is the one just before, since a lone one may be wrong.
        """
        found: list[int] = []
        for packet in self._waiting:
            shown = packet.place.shown
            if packet.is_key and shown < before:
                break
            before = shown
            if self._given is None or shown >= self._given:
                found.append(shown)
        return found
