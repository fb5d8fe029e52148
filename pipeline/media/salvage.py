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
    name = track.context.name
    before: Packet[Stream] | None = None
    for ordinal, (packet, frames) in enumerate(track.decoded()):
        if packet is not None and isinstance(frames, av.FFmpegError):
            if name == "flac":
                for piece in _flac_frames(track, packet, before):
                    yield ordinal, piece
            elif (numbers := _PCM.fullmatch(name)) is not None:
                bits = int(numbers[1] or numbers[2] or 8)
                frames = _whole_samples(track, packet, bits // 8) or frames
        before = packet
        yield ordinal, (packet, frames)


def _whole_samples(track: Track, packet: Packet[Stream], width: int) -> list[Any] | None:
    """Those of a packet that breaks off within a sample, as at the end of a file that was cut."""
    context = track.context
    size = packet.size - packet.size % max(width * context.channels, 1)
    if size in (0, packet.size):
        return None
    try:
        decoded: list[Any] = context.decode(_piece(packet, bytes(packet)[:size], packet.pts))
    except av.FFmpegError:
        return None
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
    piece: Packet[Any] = av.Packet(data)
    piece.time_base = packet.time_base
    piece.pts = piece.dts = ticks
    return piece
