"""Sound files that are a list of chunks: WAV, RF64, BW64, W64, AIFF, AIFC and CAF."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import BinaryIO, Literal

CHUNKS_MAX = 1000
"""Chunks looked at; a long list of notes and cue points is a few."""

DESCRIPTION_BYTES = 64
"""Of a chunk that describes the sound, what is looked at."""

_AIFC_WIDTHS = {b"ulaw": 1, b"ULAW": 1, b"alaw": 1, b"ALAW": 1, b"ima4": 34}
"""Bytes of one channel, where the number of bits does not say."""

_W64 = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a kind of file is divided into chunks."""

    order: Literal["little", "big"]
    first_at: int = 12
    id_bytes: int = 4
    size_bytes: int = 4
    is_head_counted: bool = False
    """Whether a chunk's size includes its own id and size."""
    padded_to: int = 2
    before_samples: int = 0
    """Bytes in the chunk of samples before the first one."""

    @property
    def head_bytes(self) -> int:
        return self.id_bytes + self.size_bytes


_W64_LAYOUT = Layout(
    order="little", first_at=40, id_bytes=16, size_bytes=8, is_head_counted=True, padded_to=8
)
_CAF_LAYOUT = Layout(order="big", first_at=8, size_bytes=8, padded_to=1, before_samples=4)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One chunk, as it says itself."""

    name: bytes
    start: int
    """Of what it holds."""
    size: int
    """Of what it holds; may reach past the end of the file."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """How samples are stored."""

    frame_bytes: int
    """Of one sample of all channels, or of a block that cannot be divided."""
    bytes_per_s: Fraction


def layout_of(head: bytes) -> Layout | None:
    """By the first twelve bytes of a file."""
    kind, form = head[:4], head[8:]
    if form == b"WAVE" and kind in (b"RIFF", b"RF64", b"BW64"):
        return Layout(order="little")
    if form == b"WAVE" and kind == b"RIFX":
        return Layout(order="big")
    if form in (b"AIFF", b"AIFC") and kind == b"FORM":
        return Layout(order="big", before_samples=8)
    if kind == b"caff":
        return _CAF_LAYOUT
    return _W64_LAYOUT if head == _W64 else None


def chunks_of(file: BinaryIO, layout: Layout, at: int, size: int) -> Iterator[Chunk]:
    """From this place on; `size` is the file's."""
    for _ in range(CHUNKS_MAX):
        if at >= size:
            return
        file.seek(at)
        head = file.read(layout.head_bytes)
        if len(head) < layout.head_bytes or not head[:4].isascii():
            return
        length = int.from_bytes(head[layout.id_bytes :], layout.order)
        start = at + layout.head_bytes
        if layout.is_head_counted:
            length = max(length - layout.head_bytes, 0)
        yield Chunk(name=head[:4], start=start, size=length)
        at = start + length
        at += -at % layout.padded_to


def stored_by(name: bytes, content: bytes, layout: Layout) -> Stored | None:
    """What the chunk of this name and content says of the samples; None where that is nothing."""
    content = content.ljust(DESCRIPTION_BYTES, b"\0")

    def number(at: int, size: int) -> int:
        return int.from_bytes(content[at : at + size], layout.order)

    match name:
        case b"fmt ":
            frame_bytes, bytes_per_s = number(12, 2), Fraction(number(8, 4))
        case b"COMM":
            width = _AIFC_WIDTHS.get(content[18:22], -(-number(6, 2) // 8))
            frame_bytes = number(0, 2) * width
            bytes_per_s = frame_bytes * _extended(number(8, 2), number(10, 8))
        case b"desc":
            frame_bytes, frames = number(16, 4), number(20, 4)
            (rate_hz,) = struct.unpack_from(">d", content)
            is_rate = 0 < rate_hz < 1e9
            bytes_per_s = Fraction(rate_hz if is_rate else 0) * frame_bytes / max(frames, 1)
        case _:
            return None
    if not frame_bytes or bytes_per_s <= 0:
        return None
    return Stored(frame_bytes=frame_bytes, bytes_per_s=bytes_per_s)


def _extended(exponent: int, mantissa: int) -> Fraction:
    """A number of 80 bits (IEEE 754), as AIFF has for the rate; 0 where it is no rate."""
    shift = (exponent & 0x7FFF) - 16383 - 63
    return Fraction(mantissa) * Fraction(2) ** shift if -64 < shift <= 0 else Fraction(0)
