"""What is too much is refused with its code before a unit of it is made, or left out and told."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pipeline.errors import RecordingRefused
from pipeline.media.container import open_container
from pipeline.media.source import open_source
from pipeline.media_child import MediaChild
from pipeline.records import Probe
from pipeline.settings import MediaLimits
from tests.clips import AAC, H264, Clips, greys, tones
from tests.pipeline.media.watched import watch
from tests.pipeline.test_media_child import linux_only

TITLE_CHARS = 20_000_000


def refusal(path: Path, **limits: int) -> RecordingRefused:
    with pytest.raises(RecordingRefused) as caught:
        open_source(str(path), start_s=0, limits=MediaLimits(**limits), pulse=lambda: None)  # type: ignore[arg-type]
    return caught.value


def probe(path: Path) -> Probe:
    return open_source(str(path), start_s=0, limits=MediaLimits(), pulse=lambda: None).probe


def slides(clips: Clips, *, hours: float) -> Path:
    """One small picture every 25 s: continuous content for the scan, and made in an instant."""
    picture = f"color=gray:s=16x16:r=1/25:d={round(hours * 3600)}"
    return clips.make("slides.mkv", "-f", "lavfi", "-i", picture, "-c:v", "mpeg4", "-g", "1")


def with_text(clips: Clips, name: str, head: str, *codecs: str) -> Path:
    """Two seconds of tones and greys with these words of FFmpeg's metadata format."""
    words = clips.write("words.txt", f";FFMETADATA1\n{head}".encode())
    maps = ("-map_metadata", "2", "-map_chapters", "2")
    return clips.make(name, *tones(2), *greys(2), "-i", str(words), *maps, *codecs)


# --- length, by packets ------------------------------------------------------------------------


def test_a_day_that_is_too_long_is_refused_by_its_packets(clips: Clips) -> None:
    refused = refusal(slides(clips, hours=12.2))
    assert refused.code == "too_long"
    assert "12.2 hours" in refused.message
    assert "at most 12 are accepted" in refused.message
    assert probe(slides(clips, hours=11.9)).packet_end_ms == pytest.approx(11.9 * 3_600_000, 1e-3)


def test_the_header_is_not_asked_how_long_it_is(clips: Clips) -> None:
    whole = clips.encoded("header.mkv", 2, *H264, *AAC).read_bytes()
    at = whole.index(b"\x44\x89\x88") + 3  # Duration, as a number of eight bytes
    lying = clips.write("years.mkv", whole[:at] + struct.pack(">d", 1e12) + whole[at + 8 :])
    watched = watch(lying)
    assert watched.probe.declared_duration_ms is not None
    assert watched.probe.declared_duration_ms > 24 * 3_600_000
    assert watched.seconds[:2] == [0, 1]


# --- pictures and rates ------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["png", "ffv1", "libx264", "mjpeg"])
def test_pictures_of_too_many_pixels_are_named_for_it(clips: Clips, codec: str) -> None:
    size = "color=gray:s=640x480:r=1:d=1"
    path = clips.make("large.mkv", "-f", "lavfi", "-i", size, "-c:v", codec)
    refused = refusal(path, frame_pixels=300_000)
    assert refused.code == "picture_too_large"
    assert "640×480" in refused.message
    assert "300,000" in refused.message


def test_a_picture_bomb_is_refused_in_little_memory(clips: Clips) -> None:
    size = "color=gray:s=8100x8100:r=1:d=1"
    path = clips.make("bomb.mkv", "-f", "lavfi", "-i", size, "-c:v", "mjpeg")
    limits = MediaLimits(memory_bytes=512 * 1024**2)  # twice what the libraries map
    with (
        MediaChild(path, limits=limits, longest_edge_px=448) as media,
        pytest.raises(RecordingRefused) as caught,
    ):
        list(media)
    assert caught.value.code == "picture_too_large"
    assert "40,000,000" in caught.value.message


@pytest.mark.parametrize("codec", ["libx264", "mpeg2video"])
def test_pictures_that_grow_past_the_limit_are_left_out_and_told(clips: Clips, codec: str) -> None:
    sound = ("-f", "lavfi", "-i", "sine=d=2")
    parts = [
        clips.make(
            f"{size}.ts", *greys(2, size=size, fps="25"), *sound, "-c:v", codec, "-c:a", "mp2"
        )
        for size in ("64x48", "640x480")
    ]
    grown = clips.write("grown.ts", b"".join(part.read_bytes() for part in parts))
    watched = watch(grown, limits=MediaLimits(frame_pixels=100_000))
    assert {frame.width_px for frame in watched.own_frames.values()} == {64}
    assert watched.remarks("video_frames_too_large")
    assert not watched.remarks("video_decode_errors")
    assert watched.end.real_samples > 3.8 * 16_000


def test_a_thousand_pictures_a_second_are_taken_and_what_is_past_the_limit_is_not(
    clips: Clips,
) -> None:
    picture = "color=gray:s=16x16:r=1000:d=1.2"
    path = clips.make("1000.mkv", "-f", "lavfi", "-i", picture, "-c:v", "mpeg4")
    assert watch(path).seconds == [0, 1]
    assert MediaLimits().packets_per_s > 12_000  # what lossless sound at 192 kHz can have
    refused = refusal(path, packets_per_s=900)
    assert refused.code == "rate_too_high"
    assert "900" in refused.message


# --- what stands beside sound and pictures -----------------------------------------------------


@linux_only
@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("title.mp4", (*H264, *AAC)),
        ("title.mkv", (*H264, *AAC)),
        ("title.mp3", ("-vn", "-c:a", "libmp3lame")),
        ("title.ogg", ("-vn", "-c:a", "libvorbis")),
    ],
)
def test_a_title_of_megabytes_is_neither_kept_nor_shown(
    clips: Clips, name: str, codecs: tuple[str, ...]
) -> None:
    path = with_text(clips, name, f"title=SECRET{'x' * TITLE_CHARS}\n", *codecs)
    limits = MediaLimits(memory_bytes=512 * 1024**2)  # twice what the libraries map
    with MediaChild(path, limits=limits, longest_edge_px=448) as media:
        if name == "title.mkv":  # FFmpeg's own reader leaves out a text of this length
            assert "SECRET" not in str(list(media))
            return
        with pytest.raises(RecordingRefused) as caught:
            list(media)
    assert caught.value.code == "metadata_too_large"
    assert "16,777,216" in caught.value.message
    assert "SECRET" not in caught.value.message


def test_a_comment_of_ordinary_length_is_no_matter(clips: Clips) -> None:
    path = with_text(clips, "long.mkv", f"comment={'word ' * 30_000}\n", *H264, *AAC)
    assert watch(path).seconds[:2] == [0, 1]


def chapters(count: int) -> str:
    lines = (
        f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={n}\nEND={n + 1}\ntitle=c{n}\n" for n in range(count)
    )
    return "".join(lines)


def test_chapters_count_as_what_is_kept_in_memory_for_them(clips: Clips) -> None:
    path = with_text(clips, "chapters.mkv", chapters(500), *H264, *AAC)
    assert watch(path).seconds[:2] == [0, 1]
    refused = refusal(path, metadata_chars=500 * 64)
    assert refused.code == "metadata_too_large"
    assert "chapters" in refused.message


def test_attachments_and_a_flood_of_subtitles_are_passed_over(clips: Clips) -> None:
    font = clips.write("font.ttf", bytes(range(256)) * 20_000)
    words = "".join(
        f"{n + 1}\n00:00:00,{n % 1000:03d} --> 00:00:02,000\n{'word ' * 40}\n\n"
        for n in range(3000)
    )
    attached = [part for _ in range(3) for part in ("-attach", str(font))]
    path = clips.make(
        "extras.mkv",
        *(*tones(2), *greys(2), "-i", str(clips.write("words.srt", words.encode()))),
        *("-map", "0", "-map", "1", "-map", "2", *H264, *AAC, "-c:s", "srt", *attached),
        *("-metadata:s:t", "mimetype=font/ttf"),
    )
    watched = watch(path)
    assert watched.seconds[:2] == [0, 1]
    assert len(watched.probe.streams) == 6
    assert "word" not in str(watched.probe)


def test_no_index_is_kept_of_the_packets_of_flv(clips: Clips) -> None:
    """FFmpeg keeps 40 bytes of each, and twice the room while it grows."""
    path = clips.encoded("a.flv", 6, "-c:v", "flv1", "-c:a", "mp3", rate_hz=44_100)
    with open_container(str(path)) as container:
        assert sum(1 for _ in container.demux()) > 200
        assert [len(stream.index_entries) for stream in container.streams] == [0, 0]
    assert watch(path).probe.declared_duration_ms == pytest.approx(6000, abs=100)


@pytest.mark.parametrize(("flags", "declared_ms"), [("", None), ("no_duration_filesize", 2000)])
def test_an_flv_file_that_does_not_say_how_long_it_is(
    clips: Clips, flags: str, declared_ms: int | None
) -> None:
    """What a pipe was written to says 0; of what says nothing, FFmpeg looks at the end."""
    path = clips.encoded(
        *("a.flv", 2, "-c:v", "flv1", "-c:a", "mp3", "-flvflags", flags or "0"), rate_hz=44_100
    )
    content = path.read_bytes()
    if not flags:
        at = content.index(b"\0\x08duration\0") + 11
        path = clips.write("piped.flv", content[:at] + bytes(8) + content[at + 8 :])
    watched = watch(path)
    found = watched.probe.declared_duration_ms
    assert found == (declared_ms and pytest.approx(declared_ms, abs=100))
    assert len(watched.units) in (2, 3)
