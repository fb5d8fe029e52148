"""Whatever a file says or is called, it is the only one that is opened."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import av
import pytest

from pipeline.errors import RecordingRefused
from pipeline.media.source import open_source
from pipeline.settings import MediaLimits
from tests.clips import AAC, H264, Clips, greys, run_ffmpeg, tones
from tests.pipeline.media.opened import watched_folder

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel tells which files are opened, on Linux only"
)

BESIDE = ("beside.ts", "a.ts", "b.ts", "still001.mp4", "still1.mp4", "x")
"""What files and names below speak of."""


def opened_with(path: Path, *, code: str | None = None) -> set[str]:
    """Names of files in the folder that reading this one opens; all of it is read."""
    with watched_folder(path.parent) as opened:
        try:
            source = open_source(str(path), start_s=0, limits=MediaLimits(), pulse=lambda: None)
            for _ in source.audio, source.pictures:
                list(_)
            got = None
        except RecordingRefused as refused:
            got = refused.code
    assert got == code
    return opened


@pytest.fixture
def folder(clips: Clips, tmp_path: Path) -> Path:
    other = clips.make("other.ts", *tones(1), *greys(1), *H264, *AAC).read_bytes()
    for name in BESIDE:
        (tmp_path / name).write_bytes(other)
    return tmp_path


NAMES = [
    *("concat:a.ts|b.ts", "concatf:a.ts", "subfile,,start,0,end,9,,:a.ts", "http:x", "https:x"),
    *("file:a.ts", "pipe:0", "fd:0", "data:audio,x", "async:a.ts", "cache:a.ts", "crypto:a.ts"),
    *("tcp:x", "rtp:x", "hls+http:x", "tee:a.ts", "md5:x", "-i", "--", "-", "still%03d.mp4"),
    *("still%d.mp4", "*.ts", "?.ts", "[ab].ts", "{a,b}.ts", "~", "$HOME", "a.ts;b.ts", " a.ts"),
    *("a\nb.mp4", "a\x1b[31mb.mp4", "a\u202eb.mp4", "ä ☃.mp4", os.fsdecode(b"caf\xe9.mp4"), "C:x"),
]


def test_a_name_is_only_a_name(clips: Clips, folder: Path) -> None:
    content = clips.make("short.wav", *tones(0.2, rate_hz=8000)).read_bytes()
    for name in NAMES:
        path = folder / name
        path.write_bytes(content)
        assert opened_with(path) == {name}
        path.unlink()


@pytest.mark.parametrize("suffix", ["mp4", "m3u8", "ts", "avi", "jpg"])
def test_a_script_is_refused_and_leads_nowhere(folder: Path, suffix: str) -> None:
    scripts = {
        "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nbeside.ts\n#EXT-X-ENDLIST\n",
        "hls2": "\ufeff#EXTM3U\r\n#EXTINF:1,\r\nfile:beside.ts\r\n",
        "concat": "ffconcat version 1.0\nfile beside.ts\n",
        "concat2": "ffconcat version 1.0\r\nfile 'file:beside.ts'\r\n",
        "dash": "<?xml version='1.0'?><MPD><BaseURL>beside.ts</BaseURL></MPD>",
        "smil": "<smil><body><video src='beside.ts'/></body></smil>",
        "sdp": "v=0\r\nc=IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n",
    }
    for kind, script in scripts.items():
        path = folder / f"{kind}.{suffix}"
        path.write_text(script)
        assert opened_with(path, code="playlist") == {path.name}


def test_pictures_that_are_numbered_are_no_recording(folder: Path) -> None:
    picture = run_ffmpeg(
        "-f", "lavfi", "-i", "testsrc2=s=64x48", "-frames:v", "1", "-f", "image2pipe", "-"
    )
    for name in ("shot001.jpg", "shot002.jpg", "shot%03d.jpg"):
        (folder / name).write_bytes(picture)
    assert opened_with(folder / "shot%03d.jpg", code="not_media") == {"shot%03d.jpg"}


def test_a_movie_that_keeps_its_samples_elsewhere_does_not_get_them(
    clips: Clips, folder: Path
) -> None:
    """An alias in the data reference box, QuickTime's own way to another file."""
    whole = clips.make("here.mov", *tones(1), *greys(1), *H264, *AAC).read_bytes()
    path = folder / "outside.mov"
    path.write_bytes(with_alias(whole, "beside.ts"))
    with watched_folder(folder) as told, av.open(str(path), options={"enable_drefs": "1"}):
        pass
    assert "beside.ts" in told  # so much for what it could do, were it let
    assert opened_with(path, code="nothing_decodable") == {"outside.mov"}


def with_alias(movie: bytes, name: str) -> bytes:
    """Every track's data reference leads to a file beside; the index must stand at the end."""
    path = name.encode() + b"\0" * (len(name) % 2)
    alias = (
        *(b"\0" * 10, b"\x01x".ljust(28, b"\0"), b"\0" * 12),
        *(bytes([len(name)]), name.encode().ljust(63, b"\0"), b"\0" * 16),
        *(struct.pack(">HH", 1, 1), b"\0" * 16, struct.pack(">HH", 2, len(path)), path),
        struct.pack(">HH", 0xFFFF, 0),
    )
    entry = b"alis" + bytes(4) + b"".join(alias).ljust(160, b"\0")
    entry = struct.pack(">I", len(entry) + 4) + entry
    reference = bytes(4) + struct.pack(">I", 1) + entry
    at = movie.rindex(b"moov") - 4
    assert at > movie.index(b"mdat")
    return movie[:at] + rebuilt(movie[at:], reference)


def rebuilt(boxes: bytes, reference: bytes) -> bytes:
    """These boxes with the content of every `dref` replaced."""
    out, at = b"", 0
    while at < len(boxes):
        (length,) = struct.unpack_from(">I", boxes, at)
        kind, body = boxes[at + 4 : at + 8], boxes[at + 8 : at + length]
        if kind in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
            body = rebuilt(body, reference)
        elif kind == b"dref":
            body = reference
        out += struct.pack(">I", len(body) + 8) + kind + body
        at += length
    return out


def test_subtitles_inside_an_avi_are_no_playlist(clips: Clips, folder: Path) -> None:
    """A GAB2 chunk is a file of its own inside; CVE-2017-9993 put a playlist into it."""
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nbeside.ts\n#EXT-X-ENDLIST\n"
    chunk = b"GAB2\0" + struct.pack("<HIHI", 2, 0, 4, len(playlist)) + playlist
    sound = clips.write("chunk.pcm", chunk.ljust(8192, b"\n"))
    raw = ("-f", "u8", "-ar", "8192", "-ac", "1", "-i", str(sound))
    made = clips.make("gab2.avi", *greys(1), *raw, "-c:v", "mpeg4", "-c:a", "pcm_u8").read_bytes()
    content = made.replace(b"auds", b"txts").replace(b"01wb", b"01tx")
    assert b"01tx" in content
    path = folder / "gab2.avi"
    path.write_bytes(content)
    assert opened_with(path) == {"gab2.avi"}


def test_the_next_segment_of_a_matroska_file_is_another_file(clips: Clips, folder: Path) -> None:
    content = clips.make("segment.mkv", *tones(1), *greys(1), *H264, *AAC).read_bytes()
    at = content.index(b"\x4d\x80")  # MuxingApp, whose place NextFilename takes
    length = content[at + 2] & 0x7F
    name = b"beside.ts".ljust(length - 1, b"\0")
    linked = b"\x3e\x83\xbb" + bytes([0x80 | len(name)]) + name
    path = folder / "linked.mkv"
    path.write_bytes(content[:at] + linked + content[at + 3 + length :])
    assert opened_with(path) == {"linked.mkv"}
