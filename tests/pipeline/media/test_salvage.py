"""Of a packet that cannot be decoded whole, only what follows on from the one before is kept."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from pipeline.media.flac import FlacFrame, read_header, whole_frames
from pipeline.media.salvage import salvaged
from tests.clips import Clips
from tests.pipeline.media.noise import noise_input

BLOCK = 1152
RATE_HZ = 48_000


@pytest.fixture
def flac(clips: Clips) -> Path:
    return clips.make("a.flac", *noise_input(clips, 0.4), "-c:a", "flac", "-frame_size", str(BLOCK))


def packets_of(path: Path) -> list[av.Packet[Any]]:
    with av.open(str(path)) as container:
        return [packet for packet in container.demux() if packet.size]


def track_of(path: Path, *, before: av.Packet[Any] | None, damaged: bytes) -> Any:
    """As much of a track as gives these packets, the last one as an error."""
    with av.open(str(path)) as container:
        context: Any = container.streams.audio[0].codec_context
    packet = av.Packet(damaged)
    packet.time_base = Fraction(1, RATE_HZ)

    def decoded() -> Any:
        if before is not None:
            yield before, []
        yield packet, av.error.InvalidDataError(1, "damaged")
        yield None, []

    return SimpleNamespace(context=context, time_base=Fraction(1, RATE_HZ), decoded=decoded)


def kept(track: Any) -> list[tuple[int, int]]:
    """Time in ticks and size of each frame that was salvaged."""
    found = []
    for _, (packet, frames) in salvaged(track):
        if packet is not None and not isinstance(frames, av.FFmpegError):
            found += [(packet.pts, frame.samples) for frame in frames]
    return found


NOISE = np.random.default_rng(4).bytes(90)


@pytest.mark.parametrize(
    ("before", "content", "expected"),
    [
        (3, (4, 5), (4, 5)),
        (3, (4, None, 5), (4, 5)),
        (3, (4, None, 6), (4,)),
        (3, (None, 5), ()),
        (3, (3,), ()),
        (3, (4, 4, 5), (4,)),
        (None, (0, None, 2), (0,)),
        (None, (2, 3, None, 5), (2, 3)),
    ],
)
def test_frames_of_flac_are_kept_as_long_as_each_follows_on(
    flac: Path, before: int | None, content: tuple[int | None, ...], expected: tuple[int, ...]
) -> None:
    """Numbers are those of frames, and None is damage between them."""
    packets = packets_of(flac)
    damaged = b"".join(NOISE if n is None else bytes(packets[n]) for n in content)
    track = track_of(flac, before=None if before is None else packets[before], damaged=damaged)
    assert kept(track) == [(n * BLOCK, BLOCK) for n in expected]


def test_a_frame_that_another_number_was_written_into_is_not_kept(flac: Path) -> None:
    packets = packets_of(flac)
    forged = bytearray(bytes(packets[4]))
    forged[4] ^= 1  # the number, under a check sum that is now wrong
    assert read_header(bytes(forged), BLOCK) is None
    assert list(whole_frames(bytes(forged), BLOCK)) == []
    (whole,) = whole_frames(bytes(packets[4]), BLOCK)
    assert isinstance(whole, FlacFrame)
    assert (whole.header.start, whole.header.samples) == (4 * BLOCK, BLOCK)
    assert kept(track_of(flac, before=packets[3], damaged=bytes(forged))) == []
