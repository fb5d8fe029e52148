"""The boxes of an ISO media file (ISO/IEC 14496-12, 4.2), read and made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEAD_BYTES = 8

COPIED_BYTES_MAX = 4 * 1024**2
"""Of boxes in one that are taken over as they are: titles, a cover, a short index of captions."""

CHILDREN_MAX = 1000


class Unclear(Exception):
    """The file's index is not one that is taken to pieces here."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Where a box lies in the file."""

    kind: bytes
    at: int
    size: int
    """Its head of 8 bytes included."""

    @property
    def end(self) -> int:
        return self.at + self.size


def read_at(descriptor: int, at: int, size: int) -> bytes:
    """All of these bytes. Raises Unclear where the file has fewer, or they are too many to hold."""
    if size > COPIED_BYTES_MAX:
        raise Unclear
    data = os.pread(descriptor, size, at)
    if len(data) < size:
        raise Unclear
    return data


def children(descriptor: int, parent: Box) -> list[Box]:
    """The boxes in a box, which they fill. Raises Unclear."""
    found: list[Box] = []
    at = parent.at + HEAD_BYTES
    while at < parent.end:
        head = read_at(descriptor, at, HEAD_BYTES)
        size = int.from_bytes(head[:4], "big")
        if size < HEAD_BYTES or at + size > parent.end or len(found) == CHILDREN_MAX:
            raise Unclear
        found.append(Box(kind=head[4:], at=at, size=size))
        at += size
    return found


def only(boxes: list[Box], kind: bytes) -> Box:
    """The one box of this kind. Raises Unclear where there is none, or another."""
    found = [box for box in boxes if box.kind == kind]
    if len(found) != 1:
        raise Unclear
    return found[0]


def body(descriptor: int, box: Box) -> bytes:
    """What a box holds. Raises Unclear."""
    return read_at(descriptor, box.at + HEAD_BYTES, box.size - HEAD_BYTES)


def whole(descriptor: int, box: Box) -> bytes:
    """A box with its head. Raises Unclear."""
    return read_at(descriptor, box.at, box.size)


def with_others(descriptor: int, boxes: Sequence[Box], made: Mapping[Box, bytes]) -> bytes:
    """These boxes one after the other, some of them made anew. Raises Unclear."""
    others = [box for box in boxes if box not in made]
    if sum(box.size for box in others) > COPIED_BYTES_MAX:
        raise Unclear
    return b"".join(made[box] if box in made else whole(descriptor, box) for box in boxes)


def make(kind: bytes, content: bytes) -> bytes:
    """A box of this content."""
    return (HEAD_BYTES + len(content)).to_bytes(4, "big") + kind + content
