"""A sound file that does not say its length gives all it holds; one that breaks off is told so."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pipeline.media.data_chunk import find_misdeclared
from tests.clips import Clips, run_ffmpeg
from tests.pipeline.media.noise import noise_input
from tests.pipeline.media.watched import Watched, watch

SECONDS = 0.7
STEREO = ("-ac", "2", "-ar", "44100")
FRAME_BYTES = 4
CUT_SAMPLES = 10_000

PIPED = [
    ("wav", "pcm_s16le", ()),
    ("wav", "pcm_s24le", ()),
    ("wav", "pcm_u8", ()),
    ("wav", "pcm_mulaw", ()),
    ("wav", "adpcm_ms", ()),
    ("wav", "pcm_f32le", ("-rf64", "always")),
    ("w64", "pcm_s16le", ()),
    ("aiff", "pcm_s16be", ()),
    ("caf", "pcm_s16be", ()),
    ("caf", "pcm_f32le", ()),
]
"""Format, codec and options; what FFmpeg writes to a pipe has no length."""


def made(clips: Clips, kind: str, codec: str = "", options: tuple[str, ...] = ()) -> Path:
    codecs = ("-c:a", codec) if codec else ()
    source = noise_input(clips, SECONDS)
    return clips.make(f"whole.{kind}", *source, *STEREO, *codecs, *options)


def same_sound(watched: Watched, expected: Watched) -> bool:
    return (
        np.array_equal(watched.sound, expected.sound)
        and watched.end.real_samples == expected.end.real_samples
        and watched.end.source_end_ms == expected.end.source_end_ms
    )


@pytest.mark.parametrize(("kind", "codec", "options"), PIPED)
def test_what_was_written_to_a_pipe_is_heard_to_its_end(
    clips: Clips, kind: str, codec: str, options: tuple[str, ...]
) -> None:
    source = noise_input(clips, SECONDS)
    piped = run_ffmpeg(*source, *STEREO, "-c:a", codec, *options, "-f", kind, "pipe:1")
    watched = watch(clips.write(f"piped.{kind}", piped))
    assert same_sound(watched, watch(made(clips, kind, codec, options)))
    assert watched.end.remarks == ()


def with_length(content: bytes, kind: str, stored: int) -> bytes:
    """A copy in which the chunk of samples has this size."""
    name, size_bytes, id_bytes = {
        "wav": (b"data", 4, 4),
        "aiff": (b"SSND", 4, 4),
        "caf": (b"data", 8, 4),
        "w64": (b"data\xf3\xac", 8, 16),
    }[kind]
    at = content.index(name) + id_bytes
    order = "big" if kind in ("aiff", "caf") else "little"
    number = (stored % (1 << 8 * size_bytes)).to_bytes(size_bytes, order)
    return content[:at] + number + content[at + size_bytes :]


UNKNOWN = [
    ("wav", 0),
    ("wav", -1),
    ("wav", 0x7FFFF000),
    ("wav", 0x80000000),
    ("wav", -37),
    ("aiff", 0),
    ("aiff", 8),
    ("aiff", 0x7FFFFFFF),
    ("caf", -1),
    ("caf", (1 << 63) - 1),
    ("w64", 0),
    ("w64", (1 << 63) - 1),
]
"""Format, and what stands for the size in files of recorders that ended without closing them."""


@pytest.mark.parametrize(("kind", "stored"), UNKNOWN)
@pytest.mark.parametrize("left_bytes", [0, 3])
def test_a_size_that_stands_for_none_is_none_and_what_follows_it_no_damage(
    clips: Clips, kind: str, stored: int, left_bytes: int
) -> None:
    """Also where writing ended within a sample."""
    whole = made(clips, kind)
    content = with_length(whole.read_bytes(), kind, stored)
    size = len(content) - (FRAME_BYTES - left_bytes) * bool(left_bytes)
    path = clips.write(f"unknown.{kind}", content[:size])
    found = find_misdeclared(str(path))
    assert found is not None
    assert found.declared is None
    watched = watch(path)
    assert watched.end.remarks == ()
    samples = round(SECONDS * 44_100) - bool(left_bytes)
    assert watched.end.real_samples == -(-samples * 16_000 // 44_100)
    same = slice(0, watched.end.real_samples - 40)  # the filter reaches past the end
    assert np.abs(watched.sound[same] - watch(whole).sound[same]).max() < 1e-6


@pytest.mark.parametrize("kind", ["wav", "aiff", "caf", "w64"])
@pytest.mark.parametrize("left_bytes", [0, 3])
def test_a_file_that_says_its_length_and_breaks_off_is_told_so(
    clips: Clips, kind: str, left_bytes: int
) -> None:
    """And what is left of a sample is damage."""
    content = made(clips, kind).read_bytes()
    size = len(content) - CUT_SAMPLES * FRAME_BYTES
    watched = watch(clips.write(f"cut.{kind}", content[: size + left_bytes]))
    (cut,) = watched.remarks("audio_cut_off")
    assert f"{SECONDS:.3f} s" in cut.message
    assert cut.start_ms == pytest.approx((SECONDS - CUT_SAMPLES / 44_100) * 1000, abs=1)
    damaged = watched.remarks("audio_packets_damaged")
    assert len(damaged) == (1 if left_bytes else 0)
    assert len(watched.end.remarks) == 1 + len(damaged)
    samples = round(SECONDS * 44_100) - CUT_SAMPLES
    assert watched.end.real_samples == -(-samples * 16_000 // 44_100)


def test_a_length_that_counts_the_header_in_is_no_break(clips: Clips) -> None:
    whole = made(clips, "wav")
    content = whole.read_bytes()
    watched = watch(clips.write("counted.wav", with_length(content, "wav", len(content))))
    assert watched.end.remarks == ()
    assert same_sound(watched, watch(whole))


def test_a_chunk_without_samples_before_others_is_empty(clips: Clips) -> None:
    content = made(clips, "aiff").read_bytes()
    at = content.index(b"SSND")
    empty = with_length(content[: at + 16], "aiff", 8)
    path = clips.write("empty.aiff", empty + b"NAME\0\0\0\x04none" + b"AUTH\0\0\0\x03me.\0")
    assert find_misdeclared(str(path)) is None
    assert find_misdeclared(str(clips.write("noise.aiff", empty + bytes(range(1, 99))))) is not None


@pytest.mark.parametrize("kind", ["wav", "aiff", "caf", "w64"])
def test_a_file_that_is_right_is_read_as_it_is(clips: Clips, kind: str) -> None:
    assert find_misdeclared(str(made(clips, kind))) is None


def test_a_length_that_went_round_at_four_gigabytes_is_none(clips: Clips) -> None:
    content = made(clips, "wav").read_bytes()
    path = clips.write("huge.wav", with_length(content, "wav", 1000))
    os.truncate(path, content.index(b"data") + 8 + (1 << 32) + 1000)
    found = find_misdeclared(str(path))
    assert found is not None
    assert (found.declared, found.held) == (None, (1 << 32) + 1000)
    assert [number for _, number in found.patches()] == [b"\xff" * 4]
    path.unlink()
