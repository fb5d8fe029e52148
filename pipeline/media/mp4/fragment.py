"""What one fragment of an MP4 file says of its samples (ISO/IEC 14496-12, 8.8)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.media.mp4.boxes import HEAD_BYTES, Unclear

BASE, DESCRIPTION, DURATION, SIZE = 0x1, 0x2, 0x8, 0x10
"""Fields of a track fragment's header (8.8.7)."""

BASE_IS_FRAGMENT = 0x20000

OFFSET, FIRST_FLAGS = 0x1, 0x4
"""Fields of a run's header (8.8.8)."""

OWN_DURATION, OWN_SIZE, OWN_FLAGS, LATER = 0x100, 0x200, 0x400, 0x800
"""Of each of its samples; the last is by how much it is presented after it is decoded."""


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What holds of samples that say nothing else: ticks and bytes."""

    duration: int
    size: int


@dataclass(frozen=True, kw_only=True)
class TrackFragment:
    """One track's share of a fragment."""

    track: int
    samples: int
    time: int
    """When the first of them is decoded, in ticks."""
    last_time: int
    """When the last of them is."""
    before: int
    """By how many ticks one is presented before it is decoded, at most."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    samples: int
    start: int
    end: int
    ticks: int
    last_ticks: int
    before: int


def read_fragment(
    data: bytes, *, at: int, end: int, defaults: Mapping[int, Defaults]
) -> list[TrackFragment]:
    """Of a fragment's box, which lies at `at` and whose samples lie before `end`.

    Raises Unclear where that is not so, or not plain to see.
    """
    found = []
    for kind, start, stop in _boxes(data, HEAD_BYTES, len(data)):
        if kind == b"traf":
            found.append(_read_track(data, start, stop, at=at, end=end, defaults=defaults))
        elif kind != b"mfhd":
            raise Unclear
    return found


def read_segments(data: bytes) -> int:
    """The number of the track that a `sidx` box (8.16.3) is of.

    Raises Unclear where FFmpeg would not read it: it then gives up the file.
    """
    version = data[HEAD_BYTES]
    track, scale = struct.unpack_from(">II", data, HEAD_BYTES + 4)
    time, offset = struct.unpack_from(">QQ" if version else ">II", data, HEAD_BYTES + 12)
    at = HEAD_BYTES + (28 if version else 20)
    (count,) = struct.unpack_from(">H", data, at + 2)
    if version > 1 or not 0 < scale < 1 << 31 or max(time, offset) >= 1 << 62 or not count:
        raise Unclear
    rows = np.frombuffer(data, ">u4", 3 * count, at + 4)
    if (rows[::3] >= 1 << 31).any():  # of one more box of this kind
        raise Unclear
    return int(track)


def _read_track(
    data: bytes, start: int, stop: int, *, at: int, end: int, defaults: Mapping[int, Defaults]
) -> TrackFragment:
    boxes = list(_boxes(data, start, stop))
    if [kind for kind, _, _ in boxes[:2]] != [b"tfhd", b"tfdt"] or len(boxes) < 3:
        raise Unclear
    track, base, common = _read_header(data, boxes[0][1], at, defaults)
    time = reached = int.from_bytes(data[boxes[1][1] + 4 : boxes[1][2]], "big")
    place = base
    samples = last_time = before = 0
    for kind, first, last in boxes[2:]:
        if kind != b"trun":
            raise Unclear
        run = _read_run(data, first, last, base=base, place=place, common=common)
        if run.start < at or run.end > end:
            raise Unclear
        samples += run.samples
        place = run.end
        last_time = reached + run.ticks - run.last_ticks
        reached += run.ticks
        before = max(before, run.before)
    return TrackFragment(
        track=track, samples=samples, time=time, last_time=last_time, before=before
    )


def _read_header(
    data: bytes, first: int, at: int, defaults: Mapping[int, Defaults]
) -> tuple[int, int, Defaults]:
    """The track's number, where its offsets begin, and what its samples have in common."""
    flags, track = struct.unpack_from(">II", data, first)
    common = defaults.get(track)
    if common is None or not flags & (BASE | BASE_IS_FRAGMENT):
        raise Unclear
    place = first + 8
    base = at
    if flags & BASE:
        (base,) = struct.unpack_from(">Q", data, place)
        place += 8
    if flags & DESCRIPTION:
        if data[place : place + 4] != b"\0\0\0\1":
            raise Unclear  # of only one, `stsd` tells
        place += 4
    duration, size = common.duration, common.size
    if flags & DURATION:
        (duration,) = struct.unpack_from(">I", data, place)
        place += 4
    if flags & SIZE:
        (size,) = struct.unpack_from(">I", data, place)
    return track, base, Defaults(duration=duration, size=size)


def _read_run(
    data: bytes, first: int, last: int, *, base: int, place: int, common: Defaults
) -> _Run:
    flags, count = struct.unpack_from(">II", data, first)
    at = first + 8
    if flags & OFFSET:
        place = base + struct.unpack_from(">i", data, at)[0]
        at += 4
    at += 4 if flags & FIRST_FLAGS else 0
    fields = [field for field in (OWN_DURATION, OWN_SIZE, OWN_FLAGS, LATER) if flags & field]
    if not count or last - at != 4 * count * len(fields):
        raise Unclear
    rows = np.frombuffer(data, ">u4", count * len(fields), at).reshape(count, len(fields))
    before = 0
    ticks, last_ticks, least_ticks = common.duration * count, common.duration, common.duration
    length, least = common.size * count, common.size
    for column, field in enumerate(fields):
        if field == OWN_DURATION:
            durations = rows[:, column].astype(np.int64)
            ticks, last_ticks = int(durations.sum()), int(durations[-1])
            least_ticks = int(durations.min())
        elif field == OWN_SIZE:
            sizes = rows[:, column].astype(np.int64)
            length, least = int(sizes.sum()), int(sizes.min())
        elif field == LATER:
            before = max(-int(rows[:, column].astype(np.uint32).view(np.int32).min()), 0)
    # One that lasts no time lasts up to the next, which may be in another part.
    if least < 1 or least_ticks < 1:
        raise Unclear
    return _Run(
        samples=count,
        start=place,
        end=place + length,
        ticks=ticks,
        last_ticks=last_ticks,
        before=before,
    )


def _boxes(data: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, start and end of what each box holds. Raises Unclear."""
    while start < stop:
        if stop - start < HEAD_BYTES:
            raise Unclear
        size, kind = struct.unpack_from(">I4s", data, start)
        if size < HEAD_BYTES or start + size > stop:
            raise Unclear
        yield kind, start + HEAD_BYTES, start + size
        start += size
