"""The last packets of a stream of pictures, from which decoding can begin anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

RECENT_BYTES_MAX = 64 * 1024 * 1024
"""Two groups of pictures: ten seconds each at 24 Mbit/s. Of more the older part is forgotten, and
what is decoded from the rest begins with its first key picture."""


class Recent:
    """Packets from the key picture before the last one that was given out.

    Not from the last one: where the next key picture is damaged, what stands in for it is made of
    any picture before.
    """

    def __init__(self) -> None:
        self._packets: deque[Packet[Stream]] = deque()
        self._keys: deque[tuple[int, int]] = deque()
        """Number of a key packet, its time stamp."""
        self._first = 0
        """Number of the oldest packet kept."""
        self._bytes = 0

    def keep(self, packets: Iterable[Packet[Stream]]) -> Iterator[Packet[Stream]]:
        """The same packets, each kept before it is passed on."""
        for packet in packets:
            if packet.is_keyframe and packet.pts is not None:
                self._keys.append((self._first + len(self._packets), packet.pts))
            self._packets.append(packet)
            self._bytes += packet.size
            while self._bytes > RECENT_BYTES_MAX:
                self._forget_to_next_key()
            yield packet

    def reached(self, ticks: int) -> None:
        """The picture of this time stamp was given out; no earlier one will be."""
        while len(self._keys) > 2 and self._keys[2][1] <= ticks:
            self._forget_to_next_key()

    def take(self) -> Iterator[Packet[Stream]]:
        """All of them in order, once."""
        while self._packets:
            yield self._packets.popleft()

    def _forget_to_next_key(self) -> None:
        if self._keys and self._keys[0][0] == self._first:
            self._keys.popleft()
        until = self._keys[0][0] if self._keys else self._first + len(self._packets)
        while self._first < until:
            self._bytes -= self._packets.popleft().size
            self._first += 1
