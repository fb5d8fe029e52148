"""The same picture stands for every second, however much is left undecoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pipeline.media import decode
from pipeline.media.needed import Marked, NeededPictures
from tests.clips import Clips, clips
from tests.pipeline.media.watched import watch

__all__ = ["clips"]

MOVING = "testsrc2=s=160x120"
"""Every picture differs from the one before."""

X264 = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p")

SHAPES = {
    "pyramid": ("mkv", "30", (*X264, "-bf", "3", "-x264-params", "b-pyramid=normal:keyint=250")),
    "deep-reorder": ("mp4", "25", (*X264, "-bf", "16", "-x264-params", "b-adapt=0:keyint=120")),
    "open-gop": ("mp4", "30000/1001", (*X264, "-bf", "3", "-x264-params", "open-gop=1:keyint=48")),
    "no-b": ("mp4", "24", (*X264, "-bf", "0")),
    "transport": ("ts", "30", (*X264, "-bf", "3", "-g", "60")),
    "odd-rate": ("mkv", "17", (*X264, "-bf", "2")),
    "slow": ("mkv", "1/2", (*X264, "-bf", "2")),
    "mpeg2": ("ts", "25", ("-c:v", "mpeg2video", "-bf", "2", "-q:v", "4")),
    "mpeg4": ("mkv", "25", ("-c:v", "mpeg4", "-bf", "2")),
    "intra": ("mkv", "25", ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p")),
    "hevc": ("mp4", "30", ("-c:v", "libx265", "-x265-params", "log-level=none:bframes=4")),
    "vp9": ("webm", "30", ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")),
}


def moving(clips: Clips, shape: str, *output: str) -> Path:
    container, fps, codec = SHAPES[shape]
    source = ("-f", "lavfi", "-i", f"{MOVING}:r={fps}:d=6")
    return clips.make(f"{shape}.{container}", *source, *codec, *output)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for every picture that the decoder gives."""
    seen: list[int] = []
    given = decode.Track.frames

    def frames(track: decode.Track) -> Iterator[object]:
        for frame in given(track):
            if track.may_skip:
                seen.append(1)
            yield frame

    monkeypatch.setattr(decode.Track, "frames", frames)
    return seen


def all_needed(needed: NeededPictures, packets: Iterable[object]) -> Iterator[Marked]:
    return (Marked(packet=packet, is_needed=True) for packet in packets)  # type: ignore[arg-type]


def pictures(path: Path, start_s: int = 0) -> list[tuple[int, str, bool]]:
    watched = watch(path, start_s=start_s)
    assert watched.end.source_end_ms > 0
    return [
        (unit.second, unit.frame.sha256, unit.is_frame_held)
        for unit in watched.units
        if unit.frame is not None
    ]


@pytest.mark.parametrize("start_s", [0, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_leaving_pictures_undecoded_changes_no_picture(
    clips: Clips, shape: str, start_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moving(clips, shape)
    found = pictures(path, start_s)
    assert len({sha256 for _, sha256, _ in found}) > 1
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == pictures(path, start_s)


@pytest.mark.parametrize(
    ("shape", "share"), [("pyramid", 0.75), ("mpeg2", 0.5), ("intra", 0.1), ("no-b", 1.0)]
)
def test_what_nobody_is_fed_is_left_undecoded(
    clips: Clips, shape: str, share: float, decoded: list[int]
) -> None:
    """x264's pyramid has a reference among its three B-pictures; MPEG-2's B-pictures are none."""
    pictures(moving(clips, shape))
    everything = 6 * int(SHAPES[shape][1])
    assert len(decoded) <= share * everything + 4


def test_two_fields_in_two_packets_stay_one_picture(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moving(clips, "pyramid", "-flags", "+ilme+ildct", "-x264-params", "tff=1")
    found = pictures(path)
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == pictures(path)


def damaged(path: Path, keep: Callable[[int], bool]) -> Path:
    """A copy with bytes turned over, away from the file's head."""
    data = bytearray(path.read_bytes())
    for position in range(len(data) // 3, len(data)):
        if not keep(position):
            data[position] ^= 0xFF
    broken = path.with_name(f"broken-{path.name}")
    broken.write_bytes(data)
    return broken


def test_after_the_first_damage_everything_is_decoded(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture of the second with the damage may be another; all later ones are the same."""
    path = damaged(moving(clips, "transport"), lambda position: position % 9973 > 3)
    found = pictures(path)
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    everything = pictures(path)
    assert len(found) == len(everything)
    different = [a[0] for a, b in zip(found, everything, strict=True) if a != b]
    assert len(different) <= 1
