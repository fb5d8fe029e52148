"""Frames of FLAC that are whole by their own check sums, within a packet that is not.

Where a `.flac` file is damaged, FFmpeg joins what lies before the damage, and the damage, to one
packet; PyAV gives nothing of a packet in which anything cannot be decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SUMMED_BYTES_MAX = 4 * 1024**2
"""Of one packet, how much is summed: after each forged beginning it is summed anew."""

HEADER_BYTES_MAX = 16

_BEGIN = re.compile(rb"\xff[\xf8\xf9]")


def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    found = []
    for byte in range(256):
        value = byte << (bits - 8)
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value >> (bits - 1) else 0)
            value &= (1 << bits) - 1
        found.append(value)
    return tuple(found)


_CRC8, _CRC16 = _table(0x07, 8), _table(0x8005, 16)


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a frame says of itself."""

    start: int
    """Number of its first sample."""
    samples: int

    @property
    def end(self) -> int:
        """Number of the sample after its last."""
        return self.start + self.samples


@dataclass(frozen=True, kw_only=True)
class FlacFrame:
    """One whole frame's bytes."""

    header: Header
    data: bytes


def read_header(data: bytes, block_size: int) -> Header | None:
    """The header that `data` begins with (RFC 9639, 9.1), where it is whole.

    `block_size` is the stream's: frames are counted in it where all have the same.
    """
    if len(data) < 6 or not _BEGIN.match(data):
        return None
    length = 8 - (data[4] ^ 0xFF).bit_length()
    size, rate = data[2] >> 4, data[2] & 15
    if length in (1, 8) or size == 0:
        return None
    at = 4 + max(length, 1)
    size_end = at + {6: 1, 7: 2}.get(size, 0)
    head = data[: size_end + {12: 1, 13: 2, 14: 2}.get(rate, 0) + 1]
    if _crc8(head) != 0:
        return None
    number = data[4] & (0x7F >> length)
    for byte in data[5:at]:
        number = (number << 6) | (byte & 0x3F)
    if size_end > at:
        samples = int.from_bytes(data[at:size_end], "big") + 1
    elif size == 1:
        samples = 192
    else:
        samples = 576 << (size - 2) if size < 6 else 256 << (size - 8)
    return Header(start=number if data[1] & 1 else number * block_size, samples=samples)


def whole_frames(data: bytes, block_size: int) -> Iterator[FlacFrame]:
    """Every frame in `data` whose header and whose end have the right check sum, in order."""
    at = summed = 0
    while (found := _BEGIN.search(data, at)) is not None:
        at = found.start()
        header = read_header(data[at : at + HEADER_BYTES_MAX], block_size)
        end = None
        if header is not None and summed < SUMMED_BYTES_MAX:
            end = _end_of_frame(data, at, SUMMED_BYTES_MAX - summed)
            summed += (end or len(data)) - at
        if header is None or end is None:
            at += 1
            continue
        yield FlacFrame(header=header, data=data[at:end])
        at = end


def _end_of_frame(data: bytes, start: int, bytes_max: int) -> int | None:
    """Where the sum over a frame and its check sum comes to nothing, and none or the next begins.

    Sums do so by chance once in 65,536 bytes; behind a frame there may be damage as well.
    """
    value, found = 0, None
    for at, byte in enumerate(data[start : start + bytes_max], start=start + 1):
        value = ((value << 8) & 0xFFFF) ^ _CRC16[(value >> 8) ^ byte]
        if value == 0 and at - start > 6:
            if at == len(data) or _BEGIN.match(data, at):
                return at
            found = at if found is None else found
    return found


def _crc8(data: bytes) -> int:
    value = 0
    for byte in data:
        value = _CRC8[value ^ byte]
    return value
