"""Files of one kind put one behind the other, as by `cat`, of which FFmpeg would end too early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

SEARCH_BYTES = 1 << 20
"""Read at once while the heads of FLV files are looked for."""

PARTS_MAX = 1000
"""Heads of one file that are hidden; what follows the last is not read."""

_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"

_VOID = b"\xec"
_VOID_HEAD_BYTES = 9
"""With a length of eight bytes (RFC 8794, 11.3.2)."""

_FLV = tuple(b"FLV\x01" + bytes([kinds]) + b"\0\0\0\x09\0\0\0\0" for kinds in (1, 4, 5))
"""Head and size of the tag before the first one (Adobe's FLV specification, E.2, E.3)."""

_SCRIPT, _RESERVED = 18, 15
"""Kinds of tags."""


def patches_of_all(path: str, *, pulse: Callable[[], None]) -> list[tuple[int, bytes]]:
    """What makes the file's parts one; nothing where it has one part, or FFmpeg reads them all.

    An FLV file is read once from end to end for that.
    """
    with Path(path).open("rb") as file:
        head = file.read(len(_FLV[0]))
        if head.startswith(_EBML):
            return list(_of_matroska(file, Path(path).stat().st_size))
        return list(_of_flv(file, pulse)) if head.startswith(b"FLV\x01") else []


def find_head_behind(path: str, at: int) -> int | None:
    """Where one more part begins behind this place, at which the last packet that was read lies."""
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        head = file.read(len(_EBML))
        file.seek(at + 1)
        behind = file.read(SEARCH_BYTES)
        if head == _EBML:
            found = _places(behind, _EBML)
            return next((p for f in found if _segment_of(file, p := at + 1 + f, size)), None)
        if head != _FLV[0][: len(head)]:
            return None
        every = (at + 1 + place for head in _FLV for place in _places(behind, head))
        return min(every, default=None)


def _places(data: bytes, wanted: bytes) -> Iterator[int]:
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def _of_matroska(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """The first file's segment is said to end nowhere, and what begins a later one is void; FFmpeg
    ends with the second else. It reads over the heads behind one that says so itself.
    """
    at, first = 0, True
    for _ in range(PARTS_MAX):
        head = _segment_of(file, at, size)
        if head is None:
            return
        segment_at, length, segment_bytes = head
        is_endless = segment_bytes == (1 << 7 * length) - 1
        end = segment_at + length + segment_bytes
        if not first:
            body = segment_at + length - at - _VOID_HEAD_BYTES
            yield at, _VOID + (body | 1 << 56).to_bytes(8, "big")
        elif not is_endless and _segment_of(file, end, size) is not None:
            yield segment_at, ((1 << 7 * length + 1) - 1).to_bytes(length, "big")
        if is_endless or end >= size:
            return
        at, first = end, False


def _segment_of(file: BinaryIO, at: int, size: int) -> tuple[int, int, int] | None:
    """Where the number is that says how long the segment of the file at `at` is, its own length,
    and what it says; None where no file begins there.
    """
    if at >= size:
        return None
    file.seek(at)
    if file.read(len(_EBML)) != _EBML:
        return None
    header_bytes, length = _number(file)
    segment_at = at + len(_EBML) + length + header_bytes
    if segment_at >= size:
        return None
    file.seek(segment_at)
    if file.read(len(_SEGMENT)) != _SEGMENT:
        return None
    segment_bytes, length = _number(file)
    return segment_at + len(_SEGMENT), length, segment_bytes


def _number(file: BinaryIO) -> tuple[int, int]:
    """A number of EBML (RFC 8794, 4) and the bytes it takes."""
    first = file.read(1)
    if not first or not first[0]:
        return 0, 1
    length = 9 - first[0].bit_length()
    rest = file.read(length - 1)
    return int.from_bytes(bytes([first[0] & (0xFF >> length)]) + rest, "big"), length


def _of_flv(file: BinaryIO, pulse: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
    """A later head becomes the beginning of a tag that nobody reads; it ends with the tag of
    metadata that every writer puts behind the head.
    """
    for found, at in enumerate(_heads_of_flv(file, pulse)):
        file.seek(at + len(_FLV[0]))
        tag = file.read(11)
        if found >= PARTS_MAX or len(tag) < 11 or tag[0] != _SCRIPT:
            return
        size = len(_FLV[0]) + int.from_bytes(tag[1:4], "big")
        if size >> 24:
            return
        yield at, bytes([_RESERVED]) + size.to_bytes(3, "big") + bytes(9)
        yield at + 11 + size, (11 + size).to_bytes(4, "big")


def _heads_of_flv(file: BinaryIO, pulse: Callable[[], None]) -> Iterator[int]:
    start, kept = len(_FLV[0]), b""
    while True:
        pulse()
        file.seek(start)
        data = file.read(SEARCH_BYTES)
        if not data:
            return
        searched = kept + data
        base = start - len(kept)
        at = searched.find(b"FLV\x01")
        while at >= 0:
            if searched[at : at + len(_FLV[0])] in _FLV:
                yield base + at
            at = searched.find(b"FLV\x01", at + 1)
        start += len(data)
        kept = searched[-(len(_FLV[0]) - 1) :]
