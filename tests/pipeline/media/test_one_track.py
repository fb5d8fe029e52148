"""Of a long MP4 file each pass is shown its own track, and gets the same of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import pytest

from pipeline.media import tracks as module
from pipeline.media.mp4.one_track import OneTrack, find_tracks
from tests.clips import AAC, H264, H264_BFRAMES, Clips, clips, greys, tones
from tests.pipeline.media.watched import Watched, watch

__all__ = ["clips"]

TWO_SOUNDS = ("-map", "1:v", "-map", "0:a", "-map", "0:a", *H264_BFRAMES, *AAC)

SHAPES = {
    "plain.mp4": (*tones(5), *greys(5), *H264_BFRAMES, *AAC),
    "index-first.mp4": (*tones(5), *greys(5), *H264, *AAC, "-movflags", "+faststart"),
    "two-sounds.mov": (*tones(5), *greys(5), *TWO_SOUNDS),
    "edited.mp4": ("-itsoffset", "0.7", *tones(5), *greys(5), *H264, *AAC),
    "sound.m4a": (*tones(5), *AAC),
}
UNCLEAR = {
    "parts.mp4": (*tones(3), *greys(3), *H264, *AAC, "-movflags", "+frag_keyframe+empty_moov"),
    "other.mkv": (*tones(3), *greys(3), *H264, *AAC),
}


def told(watched: Watched) -> Watched:
    return replace(watched, units=[replace(unit, decode_ms=0.0) for unit in watched.units])


@pytest.mark.parametrize("name", SHAPES)
def test_a_pass_that_is_shown_its_own_track_gets_the_same(
    clips: Clips, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clips.make(name, *SHAPES[name])
    expected = told(watch(path))
    opened: list[int] = []

    class Counted(OneTrack):
        def __init__(self, path: str, tracks: tuple[int, ...], index: int) -> None:
            opened.append(index)
            super().__init__(path, tracks, index)

    monkeypatch.setattr(module, "PACKETS_OF_LONG", 0)
    monkeypatch.setattr(module, "OneTrack", Counted)
    assert told(watch(path)) == expected
    chosen = {stream.index for stream in expected.probe.streams if stream.is_chosen}
    assert set(opened) == chosen


@pytest.mark.parametrize("name", SHAPES)
def test_the_others_are_not_there(clips: Clips, name: str) -> None:
    path = clips.make(name, *SHAPES[name])
    places = find_tracks(str(path))
    with av.open(str(path)) as container:
        assert len(places) == len(container.streams)
        kinds = [stream.type for stream in container.streams]
        packets = [sum(p.size > 0 for p in container.demux(0))]
    for index, kind in enumerate(kinds):
        with av.open(OneTrack(str(path), places, index)) as container:
            assert [stream.type for stream in container.streams] == [kind]
            count = sum(p.size > 0 for p in container.demux(0))
        assert index > 0 or [count] == packets


@pytest.mark.parametrize("name", UNCLEAR)
def test_where_tracks_are_not_plain_to_see_none_is_hidden(clips: Clips, name: str) -> None:
    path = clips.make(name, *UNCLEAR[name])
    assert find_tracks(str(path)) == ()
    cut = clips.write("cut.mp4", clips.make("plain.mp4", *SHAPES["plain.mp4"]).read_bytes()[:-9])
    assert find_tracks(str(cut)) == ()


def test_reading_in_pieces_hides_the_same(clips: Clips) -> None:
    path = clips.make("two-sounds.mov", *SHAPES["two-sounds.mov"])
    places = find_tracks(str(path))
    whole = Path(path).read_bytes()
    for size in (1, 3, 1000, len(whole) + 1):
        view = OneTrack(str(path), places, 1)
        view.seek(places[0] - 5)
        read = bytearray()
        while part := view.read(size):
            read += part
            if size < 1000 and len(read) > places[2] - places[0] + 100:
                break
        expected = bytearray(whole)
        for place in (places[0], places[2]):
            expected[place : place + 4] = b"free"
        assert read == expected[places[0] - 5 :][: len(read)]
