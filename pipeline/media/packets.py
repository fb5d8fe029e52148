"""The packets of one stream with the scan's clock corrections written into them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import av

from pipeline.media.scan import packets_of
from pipeline.media.scanned import StreamScan

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

TICKS_END = 1 << 63
"""FFmpeg keeps time stamps in 64 bits, with a sign."""


def corrected_packets(
    container: InputContainer,
    stream: AudioStream | VideoStream,
    found: StreamScan,
    *,
    first: int,
    pulse: Callable[[], None],
    on_error: Callable[[av.FFmpegError], None],
) -> Iterator[Packet[Stream]]:
    """Packets from ordinal `first` on; decoded frames then come out on the continued clock.

    A time stamp that the scan did not believe is removed, as if the file had none there. An empty
    packet of pictures is left out: it says that the one before still stands (Theora), and decoders
    refuse it. What FFmpeg wants discarded because the clock went back is kept.
    """
    offsets, turns = deque(found.offsets), deque(found.turns)
    offset_us = turn = 0
    for ordinal, packet in enumerate(packets_of(container, stream, pulse=pulse, on_error=on_error)):
        while offsets and ordinal >= offsets[0][0]:
            offset_us = offsets.popleft()[1]
        while turns and ordinal >= turns[0][0]:
            turn = turns.popleft()[1]
        if ordinal < first or (packet.size == 0 and stream.type == "video"):
            continue
        if packet.is_discard and found.offsets and ordinal >= found.offsets[0][0]:
            packet = _kept(packet)
        if ordinal in found.strays:
            packet.pts = packet.dts = None
        elif (offset_us or turn) and packet.time_base:
            base = packet.time_base
            ticks = round(offset_us * base.denominator / (1_000_000 * base.numerator))
            ticks += turn
            packet.pts = _moved(packet.pts, ticks)
            packet.dts = _moved(packet.dts, ticks)
        yield packet


def _moved(time: int | None, ticks: int) -> int | None:
    """None too where a packet cannot hold it: such a time is nobody's."""
    if time is None or abs(time + ticks) >= TICKS_END:
        return None
    return time + ticks


def packet_of(data: bytes) -> Packet[Any]:
    """A packet that holds these bytes in FFmpeg's own memory.

    One made of the object `data` lets go of it with Python's lock; a decoder's thread that does so
    waits for ever where whoever ends the decoder holds that lock.
    """
    packet: Packet[Any] = av.Packet(len(data))
    packet.update(data)
    return packet


def _kept(packet: Packet[Stream]) -> Packet[Stream]:
    """The same packet without the mark, which PyAV cannot take off."""
    copy: Packet[Stream] = packet_of(bytes(packet))
    copy.time_base, copy.stream = packet.time_base, packet.stream
    copy.pts, copy.dts, copy.duration = packet.pts, packet.dts, packet.duration
    copy.is_keyframe = packet.is_keyframe
    return copy
