"""What can still be read of a packet of sound that could not be decoded as a whole.

PyAV gives nothing of a packet where anything in it cannot be decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

import av

from pipeline.media.flac import HEADER_BYTES_MAX, read_header, whole_frames
from pipeline.media.packets import packet_of

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

    from pipeline.media.track import Track

    Decoded = tuple[Packet[Stream] | None, list[Any] | av.FFmpegError]

_PCM = re.compile(r"pcm_(?:[su](\d+)(?:le|be)?|f(32|64)(?:le|be)|mulaw|alaw)")
"""Codecs that are samples one after the other, and their bits; 8 where the name has none."""


def salvaged(track: Track) -> Iterator[tuple[int, Decoded]]:
    """What `track.decoded()` has, with each packet's ordinal; in place of an error the whole
    samples of PCM, and before one the frames of FLAC that follow on from the packet before.
    """
    context = track.context
    before: Packet[Stream] | None = None
    for ordinal, (packet, frames) in enumerate(track.decoded()):
        if packet is not None and isinstance(frames, av.FFmpegError):
            if context.name == "flac":
                for piece in _flac_frames(track, packet, before):
                    yield ordinal, piece
            elif (size := _whole_bytes(context, packet)) not in (0, packet.size):
                frames = _decoded(context, _piece(packet, bytes(packet)[:size], packet.pts), frames)
        before = before if packet is None else packet
        yield ordinal, (packet, frames)
    if before is not None and not before.is_corrupt and _whole_bytes(context, before) < before.size:
        # Of a file that breaks off: not every reader of a container says so.
        track.marked(at=track.time(before.pts, before.time_base))


def _whole_bytes(context: Any, packet: Packet[Stream]) -> int:
    """Bytes of a packet's whole samples; all of it where samples cannot be told apart."""
    numbers = _PCM.fullmatch(context.name)
    if numbers is None:
        return packet.size
    width = int(numbers[1] or numbers[2] or 8) // 8
    frame_bytes: int = max(width * context.channels, 1)
    return packet.size - packet.size % frame_bytes


def _decoded(
    context: Any, packet: Packet[Any], error: av.FFmpegError
) -> list[Any] | av.FFmpegError:
    """The frames of a packet, or the error that there was before."""
    try:
        decoded: list[Any] = context.decode(packet)
    except av.FFmpegError:
        return error
    return decoded


def _flac_frames(
    track: Track, packet: Packet[Stream], before: Packet[Stream] | None
) -> Iterator[Decoded]:
    context = track.context
    if track.time_base != Fraction(1, context.sample_rate or 1):
        return  # a frame's own number is not its time here
    block_size = int.from_bytes((context.extradata or b"")[2:4], "big")
    found = whole_frames(bytes(packet), block_size)
    if before is None:
        first = next(found, None)
        if first is None:
            return
        following, ticks = first.header.start, first.header.start
        found = chain([first], found)
    else:
        header = read_header(bytes(before)[:HEADER_BYTES_MAX], block_size)
        if header is None or before.pts is None:
            return
        following, ticks = header.end, before.pts + header.samples
    for frame in found:
        if frame.header.start != following:
            return
        piece = _piece(packet, frame.data, ticks)
        try:
            yield piece, context.decode(piece)
        except av.FFmpegError:
            return
        following, ticks = frame.header.end, ticks + frame.header.samples


def _piece(packet: Packet[Stream], data: bytes, ticks: int | None) -> Packet[Any]:
    piece = packet_of(data)
    piece.time_base = packet.time_base
    piece.pts = piece.dts = ticks
    return piece
