"""What is no recording is refused with a stable code, a way out, and nothing else opened."""

from __future__ import annotations

import os
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.errors import RecordingRefused
from pipeline.media_child import MediaChild
from pipeline.settings import MediaLimits
from tests.clips import AAC, H264, Clips, greys, run_ffmpeg, tones
from tests.pipeline.media.remux import Edit, remux
from tests.pipeline.media.watched import watch


def refusal(path: Path, *, start_s: int = 0, **limits: int) -> RecordingRefused:
    with pytest.raises(RecordingRefused) as caught:
        watch(path, start_s=start_s, limits=MediaLimits(**limits))  # type: ignore[arg-type]
    return caught.value


def talk(clips: Clips) -> Path:
    return clips.encoded("talk.mp4", 3, *H264, *AAC)


HTML = b"<!DOCTYPE html><html><body>Sign in to download</body></html>"
ZIP = b"PK\x03\x04" + bytes(60)

CASES = {
    "empty.mp4": (b"", "empty_file", "0 bytes"),
    "text.mp4": (b"notes of the call\n" * 40, "not_media", "text file"),
    "page.mp4": (HTML, "web_page", "web page"),
    "page2.mp4": (b"\n\n  <HTML><head>" + bytes(600), "web_page", "web page"),
    "bom.mp4": (b"\xef\xbb\xbf<!doctype html><html>", "web_page", "web page"),
    "doc.mp4": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3" + bytes(200), "not_media", "PDF"),
    "deck.mp4": (ZIP, "not_media", "ZIP"),
    "photo.mp4": (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(300), "not_media", "JPEG"),
    "shot.mp4": (b"\x89PNG\r\n\x1a\n" + bytes(300), "not_media", "PNG"),
    "noise.mp4": (bytes(range(256)) * 40, "not_media", "accepted are MP4"),
    "zeros.mp4": (bytes(100_000), "not_media", "accepted are MP4"),
    "list.mp4": (b"#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:2,\nother.ts\n", "playlist", "points at"),
    "list.m3u8": (b"#EXTM3U\n#EXTINF:2,\nother.ts\n#EXT-X-ENDLIST\n", "playlist", "points at"),
    "list.mpd": (b"<?xml version='1.0'?><MPD></MPD>", "playlist", "points at"),
    "script.mp4": (b"ffconcat version 1.0\nfile other.ts\n", "playlist", "points at"),
    "call.sdp": (b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\n", "playlist", "points at"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_no_recording_is_named(clips: Clips, name: str) -> None:
    content, code, words = CASES[name]
    refused = refusal(clips.write(name, content))
    assert refused.code == code
    assert words in refused.message


def test_a_real_picture_and_a_real_archive_are_no_recordings(clips: Clips, tmp_path: Path) -> None:
    for codec, name in (("mjpeg", "p.jpg"), ("png", "p.png"), ("libwebp", "p.webp")):
        args = ("-f", "lavfi", "-i", "testsrc2=s=64x48", "-frames:v", "1", "-c:v", codec)
        picture = clips.write(f"{name}.mp4", clips.make(name, *args).read_bytes())
        assert refusal(picture).code == "not_media"
    archive = tmp_path / "a.mp4"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.write(talk(clips), "talk.mp4")
    assert refusal(archive).code == "not_media"


def test_a_file_cut_before_its_index_says_how_to_repair_it(clips: Clips) -> None:
    whole = talk(clips).read_bytes()
    assert whole.rfind(b"moov") > len(whole) // 2
    cut = clips.write("cut.mp4", whole[: whole.rfind(b"moov") - 4])
    refused = refusal(cut)
    assert refused.code == "index_missing"
    assert "repair" in refused.message
    assert refusal(clips.write("cut2.mp4", whole[: len(whole) // 2])).code == "index_missing"
    within = clips.write("cut3.mp4", whole[: whole.rfind(b"moov") + 300])
    assert refusal(within).code == "index_missing"


def test_folders_and_missing_files_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "dangling.mp4").symlink_to(tmp_path / "nowhere")
    for name in ("folder.mp4", "missing.mp4", "pipe.mp4", "dangling.mp4"):
        refused = refusal(tmp_path / name)
        assert refused.code == "not_a_file"
        assert "MP4" in refused.message


def test_a_file_that_may_not_be_read_says_so(clips: Clips, tmp_path: Path) -> None:
    path = tmp_path / "private.mp4"
    path.write_bytes(talk(clips).read_bytes())
    path.chmod(0)
    with nobody():
        refused = refusal(path)
    assert refused.code == "unreadable"
    assert "ermission denied" in refused.message


def test_a_name_longer_than_names_may_be_is_unreadable(tmp_path: Path) -> None:
    assert refusal(tmp_path / ("x" * 5000)).code in ("unreadable", "not_a_file")


@contextmanager
def nobody() -> Iterator[None]:
    """As root every file can be read: step down for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_no_sound_and_no_picture_is_nothing_to_watch(clips: Clips) -> None:
    words = clips.write("words.srt", b"1\n00:00:00,000 --> 00:00:02,000\nHello\n")
    path = clips.make("words.mkv", "-i", str(words), "-c:s", "srt")
    refused = refusal(path)
    assert refused.code == "no_audio_or_video"


def test_a_protected_recording_is_named_as_that(clips: Clips) -> None:
    path = clips.encoded(
        "cenc.mp4",
        3,
        *(*H264, *AAC, "-encryption_scheme", "cenc-aes-ctr"),
        *("-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb"),
        *("-encryption_kid", "a7e61c373e219033c21091fa607bf3b8"),
    )
    assert b"schm" in path.read_bytes() or b"senc" in path.read_bytes()
    refused = refusal(path)
    assert refused.code in ("protected", "nothing_decodable")


# --- limits ------------------------------------------------------------------------------------


def test_time_stamps_years_apart_are_refused_without_a_walk(clips: Clips) -> None:
    whole = clips.make("bomb.mkv", *greys(2), *H264, "-g", "1")
    bomb = remux(whole, {("video", n): Edit(shift_s=86_400 * 400) for n in range(10, 20)})
    refused = refusal(bomb)
    assert refused.code == "span_too_long"
    assert "24" in refused.message


def test_too_much_content_is_refused(clips: Clips) -> None:
    refused = refusal(talk(clips), duration_s=2)
    assert refused.code == "too_long"
    assert refusal(talk(clips), span_s=2).code == "span_too_long"
    assert watch(talk(clips), limits=MediaLimits(duration_s=4, span_s=4)).seconds[:3] == [0, 1, 2]


def test_too_large_a_file_is_refused(clips: Clips) -> None:
    size = talk(clips).stat().st_size
    assert refusal(talk(clips), file_bytes=size - 1).code == "file_too_large"
    watch(talk(clips), limits=MediaLimits(file_bytes=size))


def test_too_many_streams_are_refused(clips: Clips) -> None:
    maps = [part for _ in range(65) for part in ("-map", "0:a")]
    path = clips.make("many.mkv", *tones(1), *maps, "-c:a", "pcm_s16le")
    refused = refusal(path)
    assert refused.code == "too_many_streams"
    assert "65" in refused.message
    assert "64" in refused.message


@pytest.mark.parametrize("size", ["8194x64", "64x8194"])
def test_too_large_pictures_are_refused(clips: Clips, size: str) -> None:
    path = clips.make(f"{size}.mkv", "-f", "lavfi", "-i", f"color=gray:s={size}:d=0.2", *H264)
    refused = refusal(path)
    assert refused.code == "picture_too_large"
    assert size.replace("x", "×") in refused.message


def test_a_picture_of_too_many_pixels_is_refused(clips: Clips) -> None:
    path = clips.make("wide.mkv", "-f", "lavfi", "-i", "color=gray:s=640x480:d=0.2", *H264)
    assert refusal(path, frame_pixels=640 * 480 - 1).code == "picture_too_large"
    watch(path, limits=MediaLimits(frame_pixels=640 * 480))


def test_a_start_past_the_end_is_refused_with_the_end(clips: Clips) -> None:
    refused = refusal(talk(clips), start_s=50)
    assert refused.code == "start_past_end"
    assert "50" in refused.message
    assert "3.0" in refused.message or "2.9" in refused.message


# --- nothing else is opened --------------------------------------------------------------------


SCRIPTS = {
    "ffconcat": "ffconcat version 1.0\nfile other.ts\n",
    "ffconcat-crlf": "ffconcat version 1.0\r\nfile 'other.ts'\r\nduration 3\r\n",
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nother.ts\n#EXT-X-ENDLIST\n",
    "pls": "[playlist]\nFile1=other.ts\n",
}


@pytest.mark.parametrize("name", ["x.mp4", "x.m3u8", "x.ts", "x", "x.ffconcat", "x.sdp"])
@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_does_not_show_the_file_beside_it(
    clips: Clips, tmp_path: Path, name: str, kind: str
) -> None:
    other = clips.make("other.ts", *tones(3), *greys(3), *H264, *AAC)
    (tmp_path / "other.ts").write_bytes(other.read_bytes())
    path = tmp_path / name
    path.write_text(SCRIPTS[kind])
    assert refusal(path).code in ("playlist", "not_media")


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_does_not_even_open_the_file_beside_it(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "other.ts")  # whoever opens it to read waits for a writer
    path = tmp_path / "x.m3u8"
    path.write_text(SCRIPTS[kind])
    media = MediaChild(path, limits=MediaLimits(silence_s=20), longest_edge_px=448)
    with media, pytest.raises(RecordingRefused):
        list(media)


def test_no_address_in_a_script_is_called(clips: Clips, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.3)
        port = server.getsockname()[1]
        address = f"http://127.0.0.1:{port}/a.ts"
        scripts = {
            "a.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{address}\n#EXT-X-ENDLIST\n",
            "a.mp4": f"ffconcat version 1.0\nfile {address}\n",
            "a.mpd": f"<?xml version='1.0'?><MPD><BaseURL>{address}</BaseURL></MPD>",
            "a.asx": f"<asx><entry><ref href='{address}'/></entry></asx>",
            "a.ram": f"{address}\n",
        }
        for name, script in scripts.items():
            path = tmp_path / name
            path.write_text(script)
            assert refusal(path).code in ("playlist", "not_media")
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_session_description_binds_no_port(clips: Clips, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = tmp_path / "call.mp4"
    path.write_text(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        f"m=audio {port} RTP/AVP 0\r\n"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", port))  # nobody else can have it, and nobody asks for it
        assert refusal(path).code == "playlist"


@pytest.mark.parametrize("name", ["concat:a.ts|b.ts", "http:x", "subfile,,start,0,end,9,,:a.ts"])
def test_a_name_that_looks_like_a_protocol_is_a_name(
    clips: Clips, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(talk(clips).read_bytes())
    assert watch(path).seconds[:3] == [0, 1, 2]


def test_a_cut_fragmented_recording_keeps_what_is_whole(clips: Clips) -> None:
    path = clips.encoded(
        "frag.mp4", 6, *H264, "-g", "10", *AAC, "-movflags", "frag_keyframe+empty_moov"
    )
    whole = path.read_bytes()
    cut = clips.write("frag-cut.mp4", whole[: whole.rfind(b"moof") + 30])
    watched = watch(cut)
    assert watched.seconds[:5] == [0, 1, 2, 3, 4]
    assert run_ffmpeg("-i", str(path), "-t", "0.1", "-f", "null", "-") == b""
