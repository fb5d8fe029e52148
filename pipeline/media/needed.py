"""Which packets of a stream of pictures are decoded, so that every fed picture comes out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from pipeline.media.predicted import Reader, Said

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

LOOKAHEAD_PACKETS = 32
"""Twice the pictures by which decode order runs ahead of presentation at most (H.264, HEVC)."""

INTRA_LOOKAHEAD_PACKETS = 2
"""Where no picture is predicted from another they come in order, and are large."""

SECONDS_KEPT = 256
"""Seconds whose earliest picture is remembered; time stamps stray by less."""

HELD_PACKETS_MAX = 256
HELD_BYTES_MAX = 16 * 1024 * 1024
"""Of packets held until the next start shows that nobody needs them: a second at 240 pictures, or
at 128 Mbit/s."""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A packet, and whether its picture may be fed."""

    packet: Packet[Stream]
    is_needed: bool


@dataclass
class _Seen:
    """A packet in the window."""

    packet: Packet[Stream]
    pts: int | None
    limit: int
    """A second after `pts`."""
    second: int


class NeededPictures:
    """Marks the first picture of every second, and the last one before the pictures pause.

    A packet without a time stamp makes itself, those around it and all that follow needed: its time
    is told from its neighbours.
    """

    def __init__(self, *, origin: Fraction, is_intra_only: bool) -> None:
        self._origin = origin
        self._lookahead = INTRA_LOOKAHEAD_PACKETS if is_intra_only else LOOKAHEAD_PACKETS
        self._window: deque[_Seen] = deque()
        self._first: dict[int, int] = {}
        """Earliest time stamp seen of a second."""
        self._is_untimed = False
        self._base: tuple[int, int] | None = None
        self._per_s = 1
        self._ticks = (1, 0, 1)
        """Of the clock: factor, offset and divisor that make a second of a time stamp."""

    def mark(self, packets: Iterable[Packet[Stream]]) -> Iterator[Marked]:
        """The same packets in the same order; holds a few of them back."""
        for packet in packets:
            self._window.append(self._see(packet))
            if len(self._window) > self._lookahead:
                yield self._decide()
        while self._window:
            yield self._decide()

    def _see(self, packet: Packet[Stream]) -> _Seen:
        pts, base = packet.pts, packet.time_base
        if pts is None or not base:
            self._is_untimed = True
            return _Seen(packet, None, 0, 0)
        self._set_clock(base.numerator, base.denominator)
        factor, offset, divisor = self._ticks
        second = (pts * factor - offset) // divisor
        earliest = self._first.get(second)
        if earliest is None:
            if len(self._first) >= SECONDS_KEPT:
                del self._first[next(iter(self._first))]
            self._first[second] = pts
        elif pts < earliest:
            self._first[second] = pts
        return _Seen(packet, pts, pts + self._per_s, second)

    def _set_clock(self, numerator: int, denominator: int) -> None:
        """By whole numbers from here: this runs for every packet."""
        if self._base == (numerator, denominator):
            return
        origin = self._origin
        self._base = (numerator, denominator)
        self._per_s = denominator // numerator
        self._ticks = (
            numerator * origin.denominator,
            origin.numerator * denominator,
            denominator * origin.denominator,
        )

    def _decide(self) -> Marked:
        seen = self._window.popleft()
        pts = seen.pts
        if pts is None or self._is_untimed:
            return Marked(packet=seen.packet, is_needed=True)
        is_first = self._first.get(seen.second, pts) >= pts
        is_needed = is_first or not self._is_followed(pts, seen.limit)
        return Marked(packet=seen.packet, is_needed=is_needed)

    def _is_followed(self, pts: int, limit: int) -> bool:
        """Whether another picture is presented within a second of this one."""
        return any(other.pts is not None and pts < other.pts <= limit for other in self._window)


@dataclass(frozen=True, kw_only=True)
class _Held:
    packet: Packet[Stream]
    said: Said
    is_needed: bool


class NeededPackets:
    """Leaves out the packets from which no needed picture is made.

    These are pictures from which no other is predicted, and those between the last needed one and
    the next start. What does not add up is never left out: the decoder shall tell of it.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tail: deque[Packet[Stream]] = deque()
        """Not needed, nor anything after them so far."""
        self._tail_bytes = 0
        self._start: list[_Held] = []
        """A start with what leads it, until it is known whether a leading picture is needed."""
        self._awaited: list[int] = []
        """Heap of the time stamps of needed pictures that have not come out."""
        self._has_begun = False
        self.is_leaving_out = True

    def is_missing(self, given: Iterable[int], *, is_end: bool) -> bool:
        """Whether a needed picture has not come out, and now that these did never will.

        What leads the first picture needs some before it, which were never there.
        """
        for pts in given:
            while self._awaited and self._awaited[0] <= pts:
                if heappop(self._awaited) < pts and self._has_begun:
                    return True
            self._has_begun = True
        return is_end and self._has_begun and bool(self._awaited)

    def keep_all(self) -> None:
        """From here on nothing is left out: the next picture that can be decoded stands in for one
        that cannot, whichever it is."""
        self.is_leaving_out = False

    def choose(self, marked: Iterable[Marked]) -> Iterator[Packet[Stream]]:
        """The packets to decode, in order."""
        for mark in marked:
            if not self.is_leaving_out:
                yield from self._all_held()
                yield mark.packet
                continue
            said = self._reader.read(mark.packet)
            held = _Held(packet=mark.packet, said=said, is_needed=mark.is_needed)
            if self._start and not said.is_leading:
                yield from self._begin(is_sure=said.may_go)
            if self._start:
                self._start.append(held)
            elif said.is_start and said.may_go:
                self._start = [held]
            else:
                yield from self._follow(held)
        if self._start:
            yield from self._begin(is_sure=True)
        if not self.is_leaving_out:
            yield from self._all_held()

    def _begin(self, *, is_sure: bool) -> Iterator[Packet[Stream]]:
        """A start is complete, where that `is_sure`: nothing after needs what lies before it."""
        start, *leading = self._start
        self._start = []
        if not is_sure or any(held.is_needed for held in leading):
            yield from self._all_held()
        else:
            self._tail.clear()
            self._tail_bytes = 0
            leading = []
        for held in (start, *leading):
            yield from self._follow(held)

    def _follow(self, held: _Held) -> Iterator[Packet[Stream]]:
        if held.is_needed or not held.said.may_go:
            if held.is_needed and held.packet.pts is not None and not held.packet.is_discard:
                heappush(self._awaited, held.packet.pts)
            yield from self._all_held()
            yield held.packet
        elif not held.said.is_unreferenced:
            self._tail.append(held.packet)
            self._tail_bytes += held.packet.size
            while len(self._tail) > HELD_PACKETS_MAX or self._tail_bytes > HELD_BYTES_MAX:
                yield self._oldest()

    def _all_held(self) -> Iterator[Packet[Stream]]:
        while self._tail:
            yield self._oldest()
        for held in self._start:
            yield held.packet
        self._start = []

    def _oldest(self) -> Packet[Stream]:
        packet = self._tail.popleft()
        self._tail_bytes -= packet.size
        return packet
