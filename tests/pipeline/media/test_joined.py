"""Of files put one behind the other every part is heard and seen, however many there are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.media import joined as module
from pipeline.media.joined import patches_of_all
from pipeline.media.patched import Patched
from pipeline.media.scan import packets_of
from tests.clips import H264, H264_BFRAMES, Clips, greys, tones
from tests.pipeline.media.watched import check_grey, watch

CODECS = {
    "mkv": (*H264_BFRAMES, "-c:a", "flac"),
    "flv": (*H264_BFRAMES, "-c:a", "pcm_s16le", "-ar", "44100"),
    "mp4": (*H264, "-c:a", "flac", "-movflags", "+frag_keyframe+empty_moov+default_base_moof"),
    "webm": ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus"),
}


def part(clips: Clips, kind: str, seconds: int, *options: str) -> Path:
    source = (*tones(seconds), *greys(seconds))
    return clips.make(f"{seconds}s.{kind}", *source, *CODECS[kind], *options)


def joined(clips: Clips, *parts: Path) -> Path:
    content = b"".join(part.read_bytes() for part in parts)
    return clips.write(f"joined{parts[0].suffix}", content)


@pytest.mark.parametrize("kind", CODECS)
def test_three_parts_are_heard_and_seen_to_the_end(clips: Clips, kind: str) -> None:
    lengths = (2, 1, 3)
    parts = [part(clips, kind, seconds) for seconds in lengths]
    watched = watch(joined(clips, *parts))
    resets = watched.remarks("clock_reset")
    alone = [watch(path) for path in parts]
    first_ms, second_ms = (watched.end.source_end_ms for watched in alone[:2])
    assert [reset.start_ms for reset in resets] == [
        pytest.approx(first_ms, abs=110),  # the last picture lasts a while
        pytest.approx(first_ms + second_ms, abs=220),
    ]
    real = sum(watched.end.real_samples for watched in alone)
    # Of Opus, the second and third part's pre-skip of 312 samples is heard.
    assert real <= watched.end.real_samples <= real + 2 * 104 + 2
    if kind == "mkv":
        expected = np.concatenate([watched.sound for watched in alone]).reshape(6, -1)
        heard = watched.sound.reshape(6, -1)
        assert np.abs(heard - expected)[:, 64:-64].max() < 1e-6  # each ends with its own filter
    starts = [0, *(reset.start_ms or 0 for reset in resets)]
    for frame in watched.own_frames.values():
        start = max(at for at in starts if at <= frame.source_ms + 1)
        within_ms = frame.source_ms - start
        if within_ms % 1000 < 800:  # a container's delay is less
            check_grey(frame, (within_ms + 1) // 1000)
    assert len(watched.units) in (6, 7)


def test_parts_that_say_themselves_that_they_end_nowhere_are_read_as_they_are(clips: Clips) -> None:
    live = part(clips, "mkv", 2, "-live", "1")
    path = joined(clips, live, live, live)
    assert not patches(path)
    assert watch(path).end.real_samples == 6 * 16_000
    mixed = watch(joined(clips, part(clips, "mkv", 1), part(clips, "mkv", 1), live))
    assert mixed.end.real_samples == 4 * 16_000


def patches(path: Path) -> list[tuple[int, bytes]]:
    return patches_of_all(str(path), pulse=lambda: None)


def test_a_part_that_is_not_read_is_told(clips: Clips) -> None:
    """One behind a part that ends nowhere, and one without the tag that the join is hidden in."""
    live, whole = part(clips, "mkv", 2, "-live", "1"), part(clips, "mkv", 1)
    content = part(clips, "flv", 1).read_bytes()
    first_tag = 13 + 11 + int.from_bytes(content[14:17], "big") + 4
    bare = clips.write("bare.flv", content + content[:13] + content[first_tag:])
    for path, at in (
        (joined(clips, live, whole), live.stat().st_size),
        (bare, len(content)),
    ):
        watched = watch(path)
        (told,) = watched.remarks("file_goes_on")
        assert f"begins at byte {at:,} of the file's {path.stat().st_size:,}" in told.message
    for read in (live, whole, joined(clips, live, live), joined(clips, whole, whole)):
        assert watch(read).remarks("file_goes_on") == []


def shown(path: Path) -> bytes:
    return Patched(str(path), patches(path)).read(path.stat().st_size)


def test_a_joined_matroska_file_is_shown_as_one_segment_that_ends_nowhere(clips: Clips) -> None:
    one = part(clips, "mkv", 1)
    content = one.read_bytes()
    begins = content.index(b"\x18\x53\x80\x67") + 4
    seen = shown(joined(clips, one, one, one))
    assert seen[begins : begins + 8] == b"\x01" + b"\xff" * 7
    assert seen[:begins] + content[begins : begins + 8] + seen[begins + 8 : len(content)] == content
    for at in (len(content), 2 * len(content)):
        assert seen[at : at + 1] == b"\xec"  # void, of all that comes before what the segment holds
        assert int.from_bytes(seen[at + 2 : at + 9], "big") == begins + 8 - 9
        assert seen[at + begins + 8 : at + len(content)] == content[begins + 8 :]


def test_a_joined_flv_file_is_shown_as_one_of_tags_that_follow_on(clips: Clips) -> None:
    one = part(clips, "flv", 1)
    seen = shown(joined(clips, one, one, one))
    at, kinds = 13, []
    while at < len(seen):
        kinds.append(seen[at])
        size = 11 + int.from_bytes(seen[at + 1 : at + 4], "big")
        assert int.from_bytes(seen[at + size : at + size + 4], "big") == size
        at += size + 4
    assert at == len(seen)
    assert kinds.count(18) == 1  # metadata
    assert kinds.count(15) == 2


@pytest.mark.parametrize("at", [4, 44])
def test_a_length_of_matroska_beyond_any_file_leads_nowhere(clips: Clips, at: int) -> None:
    content = part(clips, "mkv", 1).read_bytes()
    assert content[at] in (0xA3, 0xA7, 1)  # of the head, or of the segment
    huge = content[:at] + b"\x01\x7f" + b"\xff" * 6 + content[at + 8 :]
    assert not patches(clips.write("huge.mkv", huge + content))


@pytest.mark.parametrize("kind", CODECS)
def test_one_part_is_read_as_it_is(clips: Clips, kind: str) -> None:
    path = part(clips, kind, 1)
    assert not patches(path)
    rest = clips.write(f"rest.{kind}", path.read_bytes() + b"FLV\x01 and other bytes")
    assert not patches(rest)


@pytest.mark.parametrize("size", [7, 13, 64, 1 << 20])
def test_heads_are_found_across_what_is_read_at_once(
    clips: Clips, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = part(clips, "flv", 1)
    content = one.read_bytes()
    path = clips.write("heads.flv", content * 3)
    monkeypatch.setattr(module, "SEARCH_BYTES", size)
    with path.open("rb") as file:
        assert list(module._heads_of_flv(file, lambda: None)) == [len(content), 2 * len(content)]


def test_signs_of_life_come_while_heads_are_looked_for(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long file that takes minutes."""
    path = part(clips, "flv", 1)
    monkeypatch.setattr(module, "SEARCH_BYTES", 100)
    signs: list[None] = []
    assert not patches_of_all(str(path), pulse=lambda: signs.append(None))
    assert len(signs) >= path.stat().st_size // 100


def test_a_part_of_flv_without_metadata_is_not_hidden(clips: Clips) -> None:
    """Its first tag may be what its decoder needs."""
    content = part(clips, "flv", 1).read_bytes()
    first_tag = 13 + 11 + int.from_bytes(content[14:17], "big") + 4
    assert content[13] == 18
    assert patches(clips.write("a.flv", content + content))
    bare = content[:13] + content[first_tag:]
    assert not patches(clips.write("b.flv", content + bare))


def test_a_stream_that_comes_up_meanwhile_does_not_end_the_reading_with_an_error() -> None:
    """PyAV then asks for it at the end, by a number that it has not got."""
    packet = SimpleNamespace(size=1, dts=0)

    def demux() -> Any:
        yield packet
        raise IndexError

    container: Any = SimpleNamespace(demux=demux)
    assert list(packets_of(container, None, pulse=lambda: None)) == [packet]
