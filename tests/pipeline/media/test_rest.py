"""What follows in a file and is not read is told, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.media.rest import find_rest
from tests.clips import Clips, greys, tones
from tests.pipeline.media.watched import watch

PCM = ("-c:a", "pcm_s16le")
NOT_READ = {
    "wav": (*tones(1), *PCM),
    "aiff": (*tones(1), "-c:a", "pcm_s16be"),
    "caf": (*tones(1), *PCM),
    "w64": (*tones(1), *PCM),
    "m4a": (*tones(1), "-c:a", "aac"),
    "mov": (*tones(1), *greys(1), "-c:v", "mpeg4", *PCM, "-movflags", "+faststart"),
    "wmv": (*tones(1), *greys(1), "-c:v", "wmv2", "-c:a", "wmav2"),
}
READ = {
    "mp4": (
        *tones(1),
        *greys(1),
        "-c:v",
        "mpeg4",
        "-c:a",
        "aac",
        "-movflags",
        "+frag_keyframe+empty_moov",
    ),
    "mp3": (*tones(1), "-c:a", "libmp3lame"),
    "ts": (*tones(1), *greys(1), "-c:v", "mpeg2video", "-r", "25", "-c:a", "mp2"),
    "ogg": (*tones(1), "-c:a", "libvorbis"),
    "avi": (*tones(1), *greys(1), "-c:v", "mpeg4", *PCM),
}


@pytest.mark.parametrize("kind", NOT_READ)
def test_a_second_recording_that_is_not_read_is_told(clips: Clips, kind: str) -> None:
    content = clips.make(f"a.{kind}", *NOT_READ[kind]).read_bytes()
    twice = watch(clips.write(f"twice.{kind}", content + content))
    (told,) = twice.remarks("file_goes_on")
    assert f"byte {len(content):,} of the file's {2 * len(content):,}" in told.message
    assert twice.end.real_samples <= 17_000


@pytest.mark.parametrize("kind", [*NOT_READ, *READ])
def test_a_recording_alone_goes_on_nowhere(clips: Clips, kind: str) -> None:
    path = clips.make(f"a.{kind}", *({**NOT_READ, **READ}[kind]))
    assert find_rest(str(path)) is None
    noise = clips.write(f"noise.{kind}", path.read_bytes() + bytes(range(256)))
    assert find_rest(str(noise)) is None


SIZES = {"wav": (4, 8), "aiff": (4, 8), "caf": (12, 20), "w64": (16, 24), "wmv": (16, 24)}
"""Where the first length is."""


@pytest.mark.parametrize("kind", SIZES)
def test_a_length_beyond_any_file_leads_nowhere(clips: Clips, kind: str) -> None:
    content = clips.make(f"a.{kind}", *NOT_READ[kind]).read_bytes()
    first, end = SIZES[kind]
    for byte in (b"\x7f", b"\xff"):
        huge = content[:first] + byte * (end - first) + content[end:]
        assert find_rest(str(clips.write(f"huge.{kind}", huge + content))) is None


@pytest.mark.parametrize("kind", READ)
def test_what_is_read_to_its_end_is_not_told(clips: Clips, kind: str) -> None:
    content = clips.make(f"a.{kind}", *READ[kind]).read_bytes()
    path: Path = clips.write(f"twice.{kind}", content + content)
    assert find_rest(str(path)) is None
    assert watch(path).end.real_samples > 30_000
