"""A recording whose clock goes round, or is past what a signed number holds, starts at 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.clips import H264_BFRAMES, Clips, greys, tones
from tests.pipeline.media.watched import Watched, watch

MEDIA_TAGS = (8, 9)

CODECS = {
    "flv": (*H264_BFRAMES, "-c:a", "aac"),
    "wmv": ("-c:v", "wmv2", "-q:v", "3", "-c:a", "wmav2"),
}


def later(flv: bytes, by_ms: int, *, bits: int) -> bytes:
    """A copy as a server writes it that has been up for so long: each tag's time (Adobe's FLV
    specification, E.4.1) in so many bits.
    """
    out = bytearray(flv)
    at = 9 + 4
    while at + 11 <= len(out):
        if out[at] in MEDIA_TAGS:
            time = int.from_bytes(out[at + 4 : at + 7], "big") | out[at + 7] << 24
            time = (time + by_ms) % (1 << bits)
            out[at + 4 : at + 8] = (time & 0xFFFFFF).to_bytes(3, "big") + bytes([time >> 24])
        at += 11 + int.from_bytes(out[at + 1 : at + 4], "big") + 4
    return bytes(out)


def made(clips: Clips, kind: str, *options: str) -> Watched:
    size = 5
    path = clips.make(
        f"a.{kind}", *tones(size, rate_hz=44_100), *greys(size), *CODECS[kind], *options
    )
    return watch(path)


def same_seconds(watched: Watched, expected: Watched) -> bool:
    return (
        not watched.gaps
        and np.array_equal(watched.sound, expected.sound)
        and [replace(unit, decode_ms=0.0) for unit in watched.units]
        == [replace(unit, decode_ms=0.0) for unit in expected.units]
        and watched.end == expected.end
    )


@pytest.mark.parametrize(
    ("by_ms", "bits"),
    [
        ((1 << 31) - 2_400, 31),
        ((1 << 31) - 3_600_000, 31),
        ((1 << 31) - 2_400, 32),
        ((1 << 31) + 5_000, 32),
        ((1 << 32) - 2_400, 32),
        ((1 << 32) - 40, 32),
        ((7 << 29) - 10, 32),
    ],
)
def test_flv_of_a_server_that_has_been_up_for_weeks_starts_at_0(
    clips: Clips, by_ms: int, bits: int
) -> None:
    plain = clips.make("a.flv", *tones(5, rate_hz=44_100), *greys(5), *CODECS["flv"])
    moved = clips.write("late.flv", later(plain.read_bytes(), by_ms, bits=bits))
    assert same_seconds(watch(moved), watch(plain))


@pytest.mark.parametrize("by_s", [(1 << 31) // 1000 - 2, (1 << 32) // 1000 - 2])
def test_asf_past_what_its_milliseconds_hold_starts_at_0(clips: Clips, by_s: int) -> None:
    expected = made(clips, "wmv", "-output_ts_offset", "1000")
    assert same_seconds(made(clips, "wmv", "-output_ts_offset", str(by_s)), expected)
