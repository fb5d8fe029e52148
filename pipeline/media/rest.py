"""A recording that follows another one in the same file, where a reader ends with the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pipeline.media.chunks import chunks_of, layout_of
from pipeline.media.container import walk_boxes

HEAD_BYTES = 16

OBJECTS_MAX = 1000
"""Objects of an ASF file looked at: it has a handful."""

_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")


def find_rest(path: str) -> int | None:
    """Where the second recording begins; None where there is none, or it is read as well."""
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        head = file.read(HEAD_BYTES)
        if head == _ASF:
            return _after_asf(file, size)
        if head[4:8] == b"ftyp":
            return _after_mp4(path, size)
        return _after_chunks(file, size, head)


def _after_chunks(file: BinaryIO, size: int, head: bytes) -> int | None:
    layout = layout_of(head[:12])
    if layout is None:
        return None
    ends: Iterator[int]
    if head[:4] == b"caff":
        ends = (chunk.start - layout.head_bytes for chunk in chunks_of(file, layout, 8, size))
    elif head[:4] == b"riff":
        file.seek(HEAD_BYTES)
        ends = iter([int.from_bytes(file.read(8), "little")])
    else:
        ends = iter([8 + int.from_bytes(head[4:8], layout.order)])
    for end in ends:
        at = end + -end % layout.padded_to
        if at >= size:
            continue
        file.seek(at)
        if layout_of(file.read(12)) is not None:
            return at
    return None


def _after_mp4(path: str, size: int) -> int | None:
    """In parts of their own (ISO/IEC 14496-12, 8.8) a new head may come at any time."""
    found = None
    for kind, at, _ in walk_boxes(path, size):
        if kind == b"moof":
            return None
        if kind == b"ftyp" and at and found is None:
            found = at
    return found


def _after_asf(file: BinaryIO, size: int) -> int | None:
    at = 0
    for _ in range(OBJECTS_MAX):
        file.seek(at)
        head = file.read(24)
        if at and head[:16] == _ASF:
            return at
        length = int.from_bytes(head[16:], "little")
        if length < 24 or at + length >= size:
            return None
        at += length
    return None
