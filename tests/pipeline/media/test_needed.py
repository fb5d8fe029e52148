"""Every unit and every remark is the same, however much is left undecoded."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.media import decode, tracks
from pipeline.media.needed import Marked, NeededPictures
from pipeline.records import Gap, MediaEnd, Unit
from tests.clips import Clips, clips, tones
from tests.pipeline.media.remux import Edit, Edits, remux
from tests.pipeline.media.watched import watch

__all__ = ["clips"]

X264 = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p")

MPEG2 = ("-c:v", "mpeg2video", "-bf", "2")
X265 = ("-c:v", "libx265", "-x265-params")

PAUSES = ("-vf", "select='lt(mod(t,2.5),0.6)'", "-fps_mode", "vfr")
"""As a shared screen: pictures for a moment, then none for more than a second."""

SHAPES = {
    "pyramid": ("mkv", "30", (*X264, "-bf", "3", "-x264-params", "b-pyramid=normal:keyint=250")),
    "deep-reorder": ("mp4", "25", (*X264, "-bf", "16", "-x264-params", "b-adapt=0:keyint=120")),
    "open-gop": ("mp4", "30000/1001", (*X264, "-bf", "3", "-x264-params", "open-gop=1:keyint=48")),
    "no-b": ("mp4", "24", (*X264, "-bf", "0")),
    "transport": ("ts", "30", (*X264, "-bf", "3", "-g", "60")),
    "odd-rate": ("mkv", "17", (*X264, "-bf", "2")),
    "slow": ("mkv", "1/2", (*X264, "-bf", "2")),
    "mpeg2": ("ts", "25", (*MPEG2, "-q:v", "4")),
    "short": ("mp4", "30", (*X264, "-g", "45", "-bf", "2")),
    "short-transport": ("ts", "30", (*X264, "-g", "40", "-bf", "3", "-x264-params", "slices=3")),
    "shorter-than-a-second": ("mkv", "30", (*X264, "-g", "10", "-bf", "3")),
    "fast": ("mp4", "120", (*X264, "-g", "300", "-bf", "3")),
    "refresh": ("ts", "30", (*X264, "-x264-params", "intra-refresh=1:keyint=30")),
    "pauses": ("mkv", "30", (*X264, "-g", "20", "-bf", "3", *PAUSES)),
    "closed-mpeg2": ("ts", "25", (*MPEG2, "-g", "15", "-flags", "+cgop", "-sc_threshold", "1e9")),
    "mpeg2-file": ("mkv", "25", (*MPEG2, "-g", "12")),
    "hevc-short": ("ts", "30", (*X265, "log-level=none:bframes=4:keyint=40:open-gop=0")),
    "hevc-layers": ("mp4", "30", (*X265, "log-level=none:bframes=4:keyint=50:temporal-layers=3")),
    "mpeg4": ("mkv", "25", ("-c:v", "mpeg4", "-bf", "2")),
    "intra": ("mkv", "25", ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p")),
    "hevc": ("mp4", "30", ("-c:v", "libx265", "-x265-params", "log-level=none:bframes=4")),
    "vp9": ("webm", "30", ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")),
}


def moving(clips: Clips, shape: str, *output: str, size: str = "160x120") -> Path:
    container, fps, codec = SHAPES[shape]
    lavfi = ("-f", "lavfi", "-i", f"testsrc2=s={size}:r={fps}:d=6")
    return clips.make(f"{shape}.{container}", *lavfi, *tones(6), *codec, *output)


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


Told = tuple[list[Unit], list[Gap], MediaEnd]


def told(path: Path, start_s: int = 0) -> Told:
    """All that the media process says of a recording, but for how long it took."""
    watched = watch(path, start_s=start_s)
    return [replace(unit, decode_ms=0.0) for unit in watched.units], watched.gaps, watched.end


def pictures(said: Told) -> set[str]:
    return {unit.frame.sha256 for unit in said[0] if unit.frame is not None}


@pytest.mark.parametrize("start_s", [0, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_leaving_pictures_undecoded_changes_nothing(
    clips: Clips, shape: str, start_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moving(clips, shape)
    found = told(path, start_s)
    assert len(pictures(found)) > 1
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == told(path, start_s)


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        ("pyramid", 0.75),
        ("no-b", 1.0),
        ("intra", 0.1),
        ("short", 0.5),
        ("short-transport", 0.5),
        ("shorter-than-a-second", 0.1),
        ("mpeg2", 0.15),
        ("closed-mpeg2", 0.2),
        ("hevc", 0.6),
        ("hevc-short", 0.45),
        # A picture of a lower layer may be the reference of a higher one.
        ("hevc-layers", 1.0),
    ],
)
def test_what_nobody_is_fed_is_left_undecoded(
    clips: Clips, shape: str, share: float, decoded: list[int]
) -> None:
    """Pictures that others are made from are left out only between the last needed one and the
    next start.
    """
    told(moving(clips, shape))
    everything = 6 * int(SHAPES[shape][1])
    assert len(decoded) <= share * everything + 4


def test_two_fields_in_two_packets_stay_one_picture(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moving(clips, "pyramid", "-flags", "+ilme+ildct", "-x264-params", "tff=1")
    found = told(path)
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == told(path)


def test_pictures_before_a_change_of_size_come_out_whole(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder lets go of what it holds back when the parameters of the stream change."""
    parts = [moving(clips, "short-transport", size=size) for size in ("160x120", "176x144")]
    path = clips.write("sizes.ts", b"".join(part.read_bytes() for part in parts))
    found = told(path)
    sizes = {(u.frame.width_px, u.frame.height_px) for u in found[0] if u.frame is not None}
    assert sizes == {(160, 120), (176, 144)}
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == told(path)


def damaged(path: Path, seed: int) -> Path:
    """A copy with some bytes replaced in a few places, away from the file's head."""
    chance = random.Random(f"{path.name} {seed}")
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 3)):
        at, size = int(len(data) * chance.uniform(0.2, 0.9)), chance.choice((1, 20, 400, 8000))
        data[at : at + size] = chance.randbytes(size)
    broken = path.with_name(f"{seed}-{path.name}")
    broken.write_bytes(data)
    return broken


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["pyramid", "short", "transport"])
def test_pictures_of_a_damaged_file_are_those_of_decoding_everything(
    clips: Clips, shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread: of several, what stands in for a damaged picture is a race."""
    monkeypatch.setattr(tracks, "count_threads", lambda: 1)
    path = damaged(moving(clips, shape), seed)
    found = told(path)[0]
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == told(path)[0]


@pytest.mark.parametrize("hole", [(40, 75), (62, 95), (100, 140)], ids=str)
@pytest.mark.parametrize("shape", ["pyramid", "no-b", "transport", "deep-reorder"])
def test_a_needed_picture_that_a_hole_takes_with_it_is_made_up_for(
    clips: Clips, shape: str, hole: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder says nothing of a picture that it cannot make; the next one stands in for it.

    What is made of pictures that are not there may look otherwise.
    """
    monkeypatch.setattr(tracks, "count_threads", lambda: 1)
    lost: Edits = {("video", ordinal): Edit(is_lost=True) for ordinal in range(*hole)}
    path = remux(moving(clips, shape), lost)
    found = times(told(path))
    monkeypatch.setattr(NeededPictures, "mark", all_needed)
    assert found == times(told(path))


def times(said: Told) -> list[tuple[int, int | None, bool]]:
    """Which picture each second was given."""
    return [
        (unit.second, unit.frame and unit.frame.source_ms, unit.is_frame_held) for unit in said[0]
    ]
