"""A long MP4 file is read part by part, and gives what it gives as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.media.container import open_container
from pipeline.media.mp4 import fragments, parts
from pipeline.media.mp4.parted import Parted, find_parts
from pipeline.media.mp4.parts import Parts
from pipeline.media.scan import packets_of
from tests.clips import AAC, H264, H264_BFRAMES, Clips, clips, greys, tones
from tests.pipeline.media.watched import Watched, watch

__all__ = ["clips"]

SECONDS = 15

SOUND, PICTURES = tones(SECONDS), greys(SECONDS)

BOTH = (*SOUND, *PICTURES, "-g", "20")

TWO_SOUNDS = ("-map", "1:v", "-map", "0:a", "-map", "0:a")

SHAPES = {
    "plain.mp4": (*BOTH, *H264_BFRAMES, *AAC),
    "index-first.mp4": (*BOTH, *H264, *AAC, "-movflags", "+faststart"),
    "two-sounds.mov": (*BOTH, *TWO_SOUNDS, *H264_BFRAMES, *AAC),
    "late.mp4": ("-itsoffset", "0.7", *BOTH, *H264_BFRAMES, *AAC),
    "sound.m4a": (*SOUND, *AAC),
    "clock.mov": (*BOTH, *H264, "-c:a", "alac", "-timecode", "01:00:00:00"),
    "hevc.mp4": (
        *(*BOTH, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none"),
        *("-tag:v", "hvc1", "-c:a", "libopus"),
    ),
}

FRAGMENTED = {
    "fragments.mp4": (*BOTH, *H264_BFRAMES, *AAC, "-movflags", "+frag_keyframe+empty_moov"),
    "by-fragment.mp4": (
        *("-itsoffset", "0.7", *BOTH, *TWO_SOUNDS, *H264, *AAC),
        *("-movflags", "+frag_keyframe+empty_moov+default_base_moof"),
    ),
    "often.mp4": (*BOTH, *H264, *AAC, "-movflags", "+empty_moov", "-frag_duration", "300000"),
}

WHOLE = {
    "other.mkv": (*BOTH, *H264, *AAC),
    "indexed.mp4": (*BOTH, *H264, *AAC, "-movflags", "+frag_keyframe+empty_moov+global_sidx"),
    "begun.mp4": (*BOTH, *H264, *AAC, "-movflags", "+frag_keyframe"),
    "before.mp4": (*BOTH, *H264_BFRAMES, *AAC, "-movflags", "+negative_cts_offsets"),
    "raw.mov": (*BOTH, *H264, "-c:a", "pcm_s16le"),
    "mp3.mp4": (*BOTH, *H264, "-c:a", "libmp3lame"),
    "mpeg4.mp4": (*BOTH, "-c:v", "mpeg4", *AAC),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some seconds, so that a file of half a minute has several."""
    for module in (parts, fragments):
        monkeypatch.setattr(module, "FROM_SAMPLES", 0)
        monkeypatch.setattr(module, "PART_SAMPLES", 150)
    monkeypatch.setattr(parts, "HEAD_S", 2)
    monkeypatch.setattr(parts, "AHEAD_S_MAX", 1)
    monkeypatch.setattr(parts, "HEAD_SAMPLES", 16)


def packets(container: Any) -> dict[int, list[tuple[object, ...]]]:
    """All that a packet says, by stream."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for packet in packets_of(container, None, pulse=lambda: None):
        if packet.stream.type in ("audio", "video"):
            sides = [(side.data_type, bytes(side)) for side in packet.iter_sidedata()]
            times = (packet.pts, packet.dts, packet.duration, packet.time_base)
            marks = (packet.is_keyframe, packet.is_discard, packet.is_corrupt, packet.is_disposable)
            found.setdefault(packet.stream_index, []).append(
                (*times, *marks, packet.pos, bytes(packet), sides)
            )
    container.close()
    return found


def streams(container: Any) -> Iterator[tuple[object, ...]]:
    for stream in container.streams:
        context = stream.codec_context
        yield stream.type, stream.start_time, stream.duration, stream.time_base, stream.metadata
        yield () if context is None else (context.name, context.extradata)
    yield container.duration, container.start_time, container.metadata


@pytest.mark.parametrize("name", [*SHAPES, *FRAGMENTED])
def test_its_packets_are_those_of_the_whole(clips: Clips, name: str) -> None:
    path = str(clips.make(f"parts-{name}", *(SHAPES | FRAGMENTED)[name]))
    found = find_parts(path)
    assert found is not None
    assert found.count > 2
    with open_container(path) as whole, Parted(path, found) as parted:
        assert parted.is_plain
        assert list(streams(parted)) == list(streams(whole))
    expected = packets(open_container(path))
    assert packets(Parted(path, found)) == expected
    for index, alone in expected.items():
        assert packets(Parted(path, found, only_track=index)) == {0: alone}


@pytest.mark.parametrize("name", ["plain.mp4", "often.mp4"])
def test_no_part_shows_the_index_of_all(clips: Clips, name: str) -> None:
    path = str(clips.make(f"parts-{name}", *(SHAPES | FRAGMENTED)[name]))
    found = find_parts(path)
    assert found is not None
    total = sum(map(len, packets(open_container(path)).values()))
    for number in range(found.count):
        shown = packets(open_container(path, view=found.part(number).view))
        assert sum(map(len, shown.values())) < total / 2


@pytest.mark.parametrize("name", ["plain.mp4", "late.mp4", "fragments.mp4"])
def test_its_units_are_those_of_the_whole(
    clips: Clips, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clips.make(f"parts-{name}", *(SHAPES | FRAGMENTED)[name])
    parted = told(watch(path))
    for module in (parts, fragments):
        monkeypatch.setattr(module, "FROM_SAMPLES", 1 << 30)
    assert find_parts(str(path)) is None
    assert parted == told(watch(path))


def told(watched: Watched) -> Watched:
    return replace(watched, units=[replace(unit, decode_ms=0.0) for unit in watched.units])


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_not_plain_is_left_whole(clips: Clips, name: str) -> None:
    assert find_parts(str(clips.make(f"parts-{name}", *WHOLE[name]))) is None


def in_box(data: bytes, kind: bytes, at: int, value: int) -> bytes:
    """The file with four bytes changed that stand in the first box of this kind."""
    place = data.index(kind) + 4 + at
    return data[:place] + value.to_bytes(4, "big") + data[place + 4 :]


@pytest.mark.parametrize(
    ("kind", "at", "value"),
    [
        (b"stts", 4, 2),  # more entries than the box holds
        (b"stts", 8, 7),  # other samples than there are sizes
        (b"ctts", 8, 9999),
        (b"ctts", 12, 0xFFFFFF00),  # presented before it is decoded
        (b"ctts", 12, 0x00FFFFFF),  # hours after
        (b"stsz", 8, 1),
        (b"stsz", 12, 0),  # an empty sample
        (b"stsz", 12, 0x7FFFFFFF),  # one that reaches beyond the file
        (b"stss", 8, 0),
        (b"stss", 8, 2),
        (b"stss", 12, 9999),
        (b"stsc", 8, 2),
        (b"stsc", 12, 0),
        (b"stsc", 16, 2),  # another description
        (b"stco", 12, 0),  # chunks that go back
        (b"stsd", 4, 2),
        (b"hdlr", -8, 0),
        (b"elst", 16, 0x00020000),  # twice as fast
        (b"elst", 12, 0x00FFFFFF),  # shown from the middle on
        (b"elst", 8, 0),
        *((kind, 4, 0xFFFFFFFF) for kind in (b"elst", b"stts", b"ctts", b"stss", b"stsc", b"stco")),
        (b"stsz", 8, 0xFFFFFFFF),  # what a box says that it holds is no measure of work
    ],
)
@pytest.mark.timeout(30)
def test_tables_that_do_not_agree_are_left_whole(
    clips: Clips, kind: bytes, at: int, value: int
) -> None:
    data = clips.make("parts-plain.mp4", *SHAPES["plain.mp4"]).read_bytes()
    assert find_parts(str(clips.write("parts-same.mp4", data))) is not None
    changed = clips.write("parts-changed.mp4", in_box(data, kind, at, value))
    assert find_parts(str(changed)) is None


def test_a_last_sample_beyond_the_file_leaves_it_whole(clips: Clips) -> None:
    data = clips.make("parts-plain.mp4", *SHAPES["plain.mp4"]).read_bytes()
    place = data.index(b"stsz") - 4
    size = int.from_bytes(data[place : place + 4], "big")
    changed = clips.write("parts-changed.mp4", in_box(data, b"stsz", size - 12, len(data)))
    assert find_parts(str(changed)) is None


def test_sound_that_begins_long_before_it_is_shown_is_left_whole(clips: Clips) -> None:
    """FFmpeg leaves samples out there, but gives the durations of all."""
    data = clips.make("parts-sound.m4a", *SHAPES["sound.m4a"]).read_bytes()
    for start, is_divided in ((40_000, True), (60_000, False)):  # of 48,000 a second
        changed = clips.write("parts-changed.m4a", in_box(data, b"elst", 12, start))
        assert (find_parts(str(changed)) is not None) == is_divided


@pytest.mark.parametrize(
    ("kind", "at", "value"),
    [
        (b"tfdt", -4, int.from_bytes(b"free", "big")),  # no time of its own
        (b"tfhd", 4, 77),  # of no track
        (b"trun", 4, 1),  # fewer samples than there are sizes
        (b"trun", 8, 0x7FFFFFFF),  # beyond its fragment
        (b"trun", 16, 0),  # an empty sample
        (b"trun", 20, 0xFFFFFF00),  # presented before it is decoded
        (b"mfhd", -4, int.from_bytes(b"senc", "big")),
        (b"stsd", 4, 2),
        (b"stsz", 8, 1),  # samples of the index itself
        (b"mfra", -4, int.from_bytes(b"ssix", "big")),
    ],
)
def test_fragments_that_are_not_plain_are_left_whole(
    clips: Clips, kind: bytes, at: int, value: int
) -> None:
    data = clips.make("parts-fragments.mp4", *FRAGMENTED["fragments.mp4"]).read_bytes()
    assert find_parts(str(clips.write("parts-same.mp4", data))) is not None
    changed = clips.write("parts-changed.mp4", in_box(data, kind, at, value))
    assert find_parts(str(changed)) is None


def test_what_follows_the_last_box_leaves_it_whole(clips: Clips) -> None:
    path = clips.make("parts-index-first.mp4", *SHAPES["index-first.mp4"])
    data = path.read_bytes()
    for other in (data[:-9], data + bytes(5), data + bytes(16), data + data):
        assert find_parts(str(clips.write("parts-other.mp4", other))) is None


def test_the_beginning_shows_where_most_pictures_are_reordered(clips: Clips) -> None:
    """FFmpeg tells by them how long a decoder holds pictures back."""
    path = clips.make("parts-plain.mp4", *SHAPES["plain.mp4"])
    found = Parts(str(path))
    track = next(track for track in found.tracks if track is not None)
    shown = [row[0] for row in packets(open_container(str(path)))[0]]
    ahead = [
        sum(before > now for before in shown[:place])  # type: ignore[operator]
        for place, now in enumerate(shown)
    ]
    look = track.tables.times.look(())
    assert ahead[look.ahead_at] == max(ahead) > 0


def test_its_files_are_closed(clips: Clips) -> None:
    path = clips.make("parts-closed.mp4", *SHAPES["plain.mp4"])  # of this test alone
    found = find_parts(str(path))
    assert found is not None
    packets(Parted(str(path), found))
    assert count_open(path) > 0
    found = None
    assert count_open(path) == 0


def count_open(path: Path) -> int:
    return sum(
        link.resolve() == path.resolve()
        for link in Path("/proc/self/fd").iterdir()
        if link.exists()
    )
