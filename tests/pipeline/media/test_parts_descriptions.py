"""A long MP4 file with several sample descriptions a track is read part by part."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.media.container import open_container
from pipeline.media.mp4 import parts
from pipeline.media.mp4.parted import find_parts
from tests.clips import AAC, H264_BFRAMES, Clips, clips
from tests.pipeline.media.divided import BOTH, check_same, packets, small

__all__ = ["clips", "small"]

HOLDERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")

IN_A_ROW = 7
"""Chunks of one description."""


def remade(data: bytes, made: dict[bytes, Callable[[bytes], bytes]]) -> bytes:
    """The boxes with what some of them hold made anew."""
    found = []
    at = 0
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        content = data[at + 8 : at + size]
        if kind in HOLDERS:
            content = remade(content, made)
        content = made.get(kind, bytes)(content)
        found.append((8 + len(content)).to_bytes(4, "big") + kind + content)
        at += size
    return b"".join(found)


def twice(stsd: bytes) -> bytes:
    return stsd[:4] + (2).to_bytes(4, "big") + 2 * stsd[8:]


def in_turns(stsc: bytes, *, second: int = 2) -> bytes:
    """Each chunk by itself, some in a row of one description and some of the other."""
    rows = [
        [int.from_bytes(stsc[at + 4 * n : at + 4 * n + 4], "big") for n in range(3)]
        for at in range(8, len(stsc), 12)
    ]
    ends = [first for first, _, _ in rows[1:]] + [rows[-1][0] + 1]
    found = [
        (chunk, count, (1, second)[(chunk - 1) // IN_A_ROW % 2])
        for (first, count, _), end in zip(rows, ends, strict=True)
        for chunk in range(first, end)
    ]
    return (
        stsc[:4]
        + len(found).to_bytes(4, "big")
        + b"".join(value.to_bytes(4, "big") for row in found for value in row)
    )


@pytest.fixture
def plain(clips: Clips) -> bytes:
    return clips.make("described.mp4", *BOTH, *H264_BFRAMES, *AAC).read_bytes()


@pytest.mark.parametrize("part_samples", [61, 100, 150])
def test_its_packets_tell_of_each_change(
    clips: Clips, plain: bytes, part_samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_SAMPLES", part_samples)
    data = remade(plain, {b"stsd": twice, b"stsc": in_turns})
    path = clips.write("described-twice.mp4", data)
    check_same(path)
    told = [
        side
        for rows in packets(open_container(str(path))).values()
        for *_, sides in rows
        for side in sides  # type: ignore[attr-defined]
        if side[0] == "new_extradata"
    ]
    assert len(told) > 20


def test_one_of_no_such_description_is_left_whole(clips: Clips, plain: bytes) -> None:
    def beyond(stsc: bytes) -> bytes:
        return in_turns(stsc, second=3)

    data = remade(plain, {b"stsd": twice, b"stsc": beyond})
    assert find_parts(str(clips.write("described-wrong.mp4", data))) is None
