"""Which packets of a stream of pictures hold one that is fed, known before they are decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

LOOKAHEAD_PACKETS = 32
"""Twice the pictures by which decode order runs ahead of presentation at most (H.264, HEVC)."""

INTRA_LOOKAHEAD_PACKETS = 2
"""Where no picture is predicted from another they come in order, and are large."""

SECONDS_KEPT = 256
"""Seconds whose earliest picture is remembered; time stamps stray by less."""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A packet, and whether its picture may be fed."""

    packet: Packet[Stream]
    is_needed: bool


class NeededPictures:
    """Marks the first picture of every second, and the last one before the pictures pause.

    A packet without a time stamp is always needed: what it holds is not known yet.
    """

    def __init__(self, *, origin: Fraction, is_intra_only: bool) -> None:
        self._origin = origin
        self._lookahead = INTRA_LOOKAHEAD_PACKETS if is_intra_only else LOOKAHEAD_PACKETS
        self._window: deque[Packet[Stream]] = deque()
        self._first: dict[int, int] = {}
        """Earliest time stamp seen of a second."""

    def mark(self, packets: Iterable[Packet[Stream]]) -> Iterator[Marked]:
        """The same packets in the same order; holds a few of them back."""
        for packet in packets:
            self._window.append(packet)
            self._see(packet)
            if len(self._window) > self._lookahead:
                yield self._decide()
        while self._window:
            yield self._decide()

    def _see(self, packet: Packet[Stream]) -> None:
        if packet.pts is None or not packet.time_base:
            return
        second = self._second(packet)
        earliest = self._first.get(second)
        if earliest is None:
            if len(self._first) >= SECONDS_KEPT:
                del self._first[next(iter(self._first))]
            self._first[second] = packet.pts
        elif packet.pts < earliest:
            self._first[second] = packet.pts

    def _decide(self) -> Marked:
        packet = self._window.popleft()
        pts, base = packet.pts, packet.time_base
        if pts is None or not base:
            return Marked(packet=packet, is_needed=True)
        is_first = self._first.get(self._second(packet), pts) >= pts
        return Marked(packet=packet, is_needed=is_first or not self._is_followed(pts, base))

    def _is_followed(self, pts: int, base: Fraction) -> bool:
        """Whether another picture is presented within a second of this one."""
        limit = pts + base.denominator // base.numerator
        return any(other.pts is not None and pts < other.pts <= limit for other in self._window)

    def _second(self, packet: Packet[Stream]) -> int:
        """The source second of its time stamp, by whole numbers: this runs for every packet."""
        pts, base, origin = packet.pts, packet.time_base, self._origin
        assert pts is not None
        assert base is not None
        ticks = pts * base.numerator * origin.denominator - origin.numerator * base.denominator
        return ticks // (base.denominator * origin.denominator)
