"""A long MP4 file whose end is missing is read part by part, and gives what it gives as a whole."""

from __future__ import annotations

import pytest

from pipeline.media.mp4.parted import find_parts
from tests.clips import AAC, H264, H264_BFRAMES, Clips, clips
from tests.pipeline.media.divided import BOTH, check_same, small

__all__ = ["clips", "small"]

INDEX_FIRST = (*BOTH, *H264_BFRAMES, *AAC, "-movflags", "+faststart")

FRAGMENTED = (*BOTH, *H264, *AAC, "-movflags", "+frag_keyframe+dash")


@pytest.mark.parametrize("share", [0.9999, 0.8, 0.66, 0.5])
@pytest.mark.parametrize("arguments", [INDEX_FIRST, FRAGMENTED], ids=["index-first", "fragments"])
def test_it_ends_where_the_whole_does(
    clips: Clips, arguments: tuple[str, ...], share: float
) -> None:
    data = clips.make("cut-parts.mp4", *arguments).read_bytes()
    end = int(len(data) * share)
    if b"moof" in data:
        end = data.rindex(b"mdat", 0, end) + 3000  # within samples
    check_same(clips.write("cut-parts.mp4", data[:end]), parts_min=2)


@pytest.mark.parametrize("kind", [b"moof", b"moov"])
def test_one_cut_within_an_index_is_left_whole(clips: Clips, kind: bytes) -> None:
    arguments = FRAGMENTED if kind == b"moof" else INDEX_FIRST
    data = clips.make("cut-parts.mp4", *arguments).read_bytes()
    cut = clips.write("cut-index.mp4", data[: data.rindex(kind) + 100])
    assert find_parts(str(cut)) is None


def test_one_whose_tracks_end_apart_is_left_whole(clips: Clips) -> None:
    """FFmpeg stops at the first sample that is missing, wherever the other track then is."""
    path = clips.make("cut-parts.mp4", *INDEX_FIRST)
    data = path.read_bytes()
    first, second = (at for at in range(len(data)) if data.startswith(b"stco", at))
    assert find_parts(str(clips.write("cut-same.mp4", data[:-9]))) is not None
    count = int.from_bytes(data[second + 8 : second + 12], "big")
    held = 12 + 4 * (count - 40)  # its last chunks lie beyond all others
    moved = bytearray(data)
    for at in range(second + held, second + 12 + 4 * count, 4):
        place = int.from_bytes(data[at : at + 4], "big") + len(data)
        moved[at : at + 4] = place.to_bytes(4, "big")
    mdat = data.rindex(b"mdat") - 4
    moved[mdat : mdat + 4] = (2 * len(data)).to_bytes(4, "big")
    assert first < second
    assert find_parts(str(clips.write("cut-apart.mp4", bytes(moved)))) is None
