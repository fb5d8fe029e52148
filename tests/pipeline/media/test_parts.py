"""A long MP4 file is read part by part, and gives what it gives as a whole."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.media.container import open_container
from pipeline.media.mp4 import fragments, parts
from pipeline.media.mp4.parted import Parted, find_parts
from pipeline.media.mp4.parts import Parts
from tests.clips import AAC, H264, H264_BFRAMES, Clips, clips
from tests.pipeline.media.divided import BOTH, SOUND, check_same, packets, small
from tests.pipeline.media.watched import Watched, watch

__all__ = ["clips", "small"]

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
    "hev1.mp4": (
        *(*BOTH, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none"),
        *AAC,
    ),
    "vp9.mp4": (*BOTH, "-c:v", "libvpx-vp9", "-cpu-used", "8", "-deadline", "realtime", *AAC),
    "av1.mp4": (*BOTH, "-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", *AAC),
    "before.mp4": (*BOTH, *H264_BFRAMES, *AAC, "-movflags", "+negative_cts_offsets"),
    "before-late.mp4": (
        *("-itsoffset", "0.7", *BOTH, *H264_BFRAMES, *AAC),
        *("-movflags", "+negative_cts_offsets"),
    ),
}

FRAGMENTED = {
    "fragments.mp4": (*BOTH, *H264_BFRAMES, *AAC, "-movflags", "+frag_keyframe+empty_moov"),
    "by-fragment.mp4": (
        *("-itsoffset", "0.7", *BOTH, *TWO_SOUNDS, *H264, *AAC),
        *("-movflags", "+frag_keyframe+empty_moov+default_base_moof"),
    ),
    "often.mp4": (*BOTH, *H264, *AAC, "-movflags", "+empty_moov", "-frag_duration", "300000"),
    "dash.mp4": (
        *(*BOTH, *H264_BFRAMES, *AAC),
        *("-movflags", "+empty_moov+dash", "-frag_duration", "300000"),
    ),
    "indexed.mp4": (*BOTH, *H264, *AAC, "-movflags", "+frag_keyframe+empty_moov+global_sidx"),
    "cmaf.mp4": (*BOTH, *H264_BFRAMES, *AAC, "-movflags", "+frag_keyframe+cmaf"),
    "cmaf-indexed.mp4": (
        *BOTH,
        *H264_BFRAMES,
        *AAC,
        "-movflags",
        "+frag_keyframe+cmaf+global_sidx",
    ),
}

WHOLE = {
    "other.mkv": (*BOTH, *H264, *AAC),
    "begun.mp4": (*BOTH, *H264, *AAC, "-movflags", "+frag_keyframe"),
    "raw.mov": (*BOTH, *H264, "-c:a", "pcm_s16le"),
    "mp3.mp4": (*BOTH, *H264, "-c:a", "libmp3lame"),
    "mpeg4.mp4": (*BOTH, "-c:v", "mpeg4", *AAC),
}


@pytest.mark.parametrize("name", [*SHAPES, *FRAGMENTED])
def test_its_packets_are_those_of_the_whole(clips: Clips, name: str) -> None:
    check_same(clips.make(f"parts-{name}", *(SHAPES | FRAGMENTED)[name]))


@pytest.mark.parametrize("name", ["plain.mp4", "often.mp4", "dash.mp4"])
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


def in_box(data: bytes, kind: bytes, at: int, value: int, *, nth: int = 0) -> bytes:
    """The file with four bytes changed that stand in one box of this kind."""
    place = [found.start() for found in re.finditer(kind, data)][nth] + 4 + at
    return data[:place] + value.to_bytes(4, "big") + data[place + 4 :]


@pytest.mark.parametrize(
    ("kind", "at", "value"),
    [
        (b"stts", 4, 2),  # more entries than the box holds
        (b"stts", 8, 7),  # other samples than there are sizes
        (b"ctts", 8, 9999),
        (b"ctts", 12, 0x80000000),  # hours before it is decoded
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
        (b"stsd", 8, 0x7FFFFFFF),  # one that is larger than its box
        (b"mdhd", 12, 0),  # no ticks to a second
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
    for other in (data + bytes(5), data + bytes(16), data + data):
        assert find_parts(str(clips.write("parts-other.mp4", other))) is None


BEFORE = 0xFFFFF000
"""Presented two fifths of a second before it is decoded."""


def test_by_how_much_all_is_moved_is_told_by_the_beginning(clips: Clips) -> None:
    """FFmpeg moves the times of all samples by what the most extreme one asks for."""
    data = clips.make("parts-before.mp4", *SHAPES["before.mp4"]).read_bytes()
    early = in_box(data, b"ctts", 12 + 8 * 5, BEFORE)
    check_same(clips.write("parts-early.mp4", early))
    late = in_box(data, b"ctts", 12 + 8 * 60, BEFORE)
    assert find_parts(str(clips.write("parts-late.mp4", late))) is None


def test_fragments_are_shown_up_to_the_one_that_moves_all_the_most(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clips.write("parts-late.mp4", moved_late(clips, "cmaf.mp4"))
    check_same(path)
    monkeypatch.setattr(fragments, "HEAD_SAMPLES_MAX", 100)
    assert find_parts(str(path)) is None


def test_fragments_that_are_read_one_by_one_are_moved_by_the_first(clips: Clips) -> None:
    """With an index of segments, by how much depends on how far FFmpeg has read."""
    path = clips.write("parts-late.mp4", moved_late(clips, "cmaf-indexed.mp4"))
    assert find_parts(str(path)) is None


def moved_late(clips: Clips, name: str) -> bytes:
    """With one picture of the fifth fragment that is presented long before it is decoded."""
    data = clips.make(f"parts-{name}", *FRAGMENTED[name]).read_bytes()
    return in_box(data, b"trun", 20, BEFORE, nth=8)


def test_how_long_the_last_segment_of_a_track_says_it_is_counts(clips: Clips) -> None:
    data = clips.make("parts-dash.mp4", *FRAGMENTED["dash.mp4"]).read_bytes()
    for _ in range(4):  # of both tracks, the last two
        place = data.rindex(b"sidx")
        data = data[:place] + b"free" + data[place + 4 :]
    for nth in (-1, -2):
        data = in_box(data, b"sidx", 36, 0x00FFFFFF, nth=nth)  # hours
    check_same(clips.write("parts-longer.mp4", data))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 0x02000000),  # of a version to come
        (4, 77),  # of no track
        (8, 0),  # no ticks to a second
        (28, 0),  # of nothing
        (32, 0x80000000),  # of other boxes of its kind
    ],
)
def test_a_segment_that_is_not_plain_leaves_the_file_whole(
    clips: Clips, at: int, value: int
) -> None:
    """FFmpeg gives up a file in which it meets one, and it may be in any part."""
    data = clips.make("parts-dash.mp4", *FRAGMENTED["dash.mp4"]).read_bytes()
    changed = in_box(data, b"sidx", at, value, nth=5)
    assert find_parts(str(clips.write("parts-changed.mp4", changed))) is None


def test_a_sample_within_the_index_leaves_the_file_whole(clips: Clips) -> None:
    """Each part shows another index there."""
    data = clips.make("parts-index-first.mp4", *SHAPES["index-first.mp4"]).read_bytes()
    changed = in_box(data, b"stco", 8, data.index(b"moov") + 200)
    assert find_parts(str(clips.write("parts-changed.mp4", changed))) is None


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
