"""Each source second lies in the unit of its number, by the clip's own encoding of the second."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.clips import (
    AAC,
    H264,
    H264_BFRAMES,
    SAMPLES,
    Clips,
    ffmpeg_pcm,
    greys,
    lag_samples,
    run_ffmpeg,
    tones,
)
from tests.pipeline.media.watched import LAG_MAX, check_grey, check_tone, samples, watch

LONG_SETTING = "OMNAI_TEST_LONG"
"""Set to 1 to run the tests that take minutes."""

VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")

AV_CASES = {
    "a.mp4": (*H264_BFRAMES, *AAC),
    "a.mov": (*H264, "-c:a", "pcm_s16le"),
    "fragmented.mp4": (*H264, *AAC, "-movflags", "frag_keyframe+empty_moov", "-g", "10"),
    "flac.mkv": (*H264_BFRAMES, "-c:a", "flac"),
    "opus.mkv": (*H264, "-c:a", "libopus", "-ac", "1"),
    "a.webm": (*VP9, "-c:a", "libopus", "-ac", "1"),
    "offset.ts": (*H264_BFRAMES, *AAC, "-output_ts_offset", "36000"),
    "a.avi": ("-c:v", "mpeg4", "-q:v", "3", "-c:a", "libmp3lame"),
    "a.flv": (*H264_BFRAMES, *AAC, "-ar", "44100"),
    "a.wmv": ("-c:v", "wmv2", "-q:v", "3", "-c:a", "wmav2", "-b:a", "96k"),
    "a.mpg": ("-r", "25", "-c:v", "mpeg2video", "-q:v", "2", "-c:a", "mp2"),
}

PRIMED = {"offset.ts", "a.mpg", "a.flv", "fragmented.mp4", "a.wmv"}
MP3_DELAY = 368
"""1105 samples at 48 kHz: the encoder's and decoder's delay, for which AVI has no place."""

PRIMING = 400
"""Where only the sound of a packet of 1024 samples tells which picture it belongs to."""

ALIGNED_MS = 90
"""Where a container begins with the sound's priming (MPEG-TS, ASF …), all of it comes that late."""

AUDIO_CASES = [
    ("a.wav", 8_000, ("-c:a", "pcm_mulaw")),
    ("a.wav", 11_025, ("-c:a", "pcm_s16le")),
    ("a.wav", 96_000, ("-c:a", "pcm_s24le")),
    ("a.wav", 16_000, ("-c:a", "pcm_f32le")),
    ("a.flac", 44_100, ("-c:a", "flac")),
    ("a.flac", 96_000, ("-c:a", "flac")),
    ("a.flac", 8_000, ("-c:a", "flac")),
    ("a.m4a", 22_050, AAC),
    ("a.m4a", 48_000, AAC),
    ("a.m4a", 11_025, ("-c:a", "aac", "-b:a", "48k")),
    ("a.m4a", 44_100, ("-c:a", "alac")),
    ("a.mp3", 44_100, ("-c:a", "libmp3lame")),
    ("a.mp3", 48_000, ("-c:a", "libmp3lame")),
    ("a.mp3", 22_050, ("-c:a", "libmp3lame")),
    ("a.mp3", 11_025, ("-c:a", "libmp3lame")),
    ("a.ogg", 48_000, ("-c:a", "libopus")),
    ("a.ogg", 44_100, ("-c:a", "libvorbis")),
    ("a.ogg", 8_000, ("-c:a", "libopus")),
    ("a.mka", 44_100, ("-c:a", "pcm_s16le")),
]

RESAMPLED_TOLERANCE = 2e-5
"""Float rounding: FFmpeg's command resamples the source's own sample format."""


@pytest.mark.parametrize("name", AV_CASES)
def test_sound_and_picture_of_each_second_are_in_its_unit(clips: Clips, name: str) -> None:
    watched = watch(clips.encoded(name, 6, *AV_CASES[name]))
    assert watched.seconds[:6] == list(range(6))
    assert len(watched.units) <= 7
    assert not watched.gaps
    for second in range(6):
        unit = watched.unit(second)
        assert unit.frame is not None
        assert not unit.is_frame_held
        late_ms = unit.frame.source_ms - second * 1000
        late = MP3_DELAY if name == "a.avi" else late_ms * 16
        check_tone(unit, second, offset=late, lag_max=PRIMING if name in PRIMED else LAG_MAX)
        assert 0 <= late_ms <= (ALIGNED_MS if name in PRIMED else 0)
        # FFmpeg's AVI writer leaves slot 1 empty: its pictures are one of 10 a second late.
        check_grey(unit.frame, (max(second * 10 - 1, 0)) // 10 if name == "a.avi" else second)


@pytest.mark.parametrize(("name", "rate_hz", "codec"), AUDIO_CASES)
def test_an_audio_file_is_heard_second_by_second(
    clips: Clips, name: str, rate_hz: int, codec: tuple[str, ...]
) -> None:
    path = clips.make(name, *tones(5, rate_hz=rate_hz), *codec)
    watched = watch(path)
    assert watched.seconds[:5] == list(range(5))
    for second in range(5):
        check_tone(watched.unit(second), second)
    assert all(unit.frame is None for unit in watched.units)
    assert watched.end.real_samples == pytest.approx(5 * 16_000, abs=16_000 * 0.06)


@pytest.mark.parametrize(("name", "rate_hz", "codec"), AUDIO_CASES)
def test_the_joined_units_equal_what_ffmpeg_decodes_in_one_go(
    clips: Clips, name: str, rate_hz: int, codec: tuple[str, ...]
) -> None:
    path = clips.make(name, *tones(5, rate_hz=rate_hz), *codec)
    expected = ffmpeg_pcm(path)
    heard = watch(path).sound
    size = min(heard.size, expected.size)
    assert size >= 5 * 16_000 - 1
    # The two builds of FFmpeg differ in how much of the last packet's padding they give.
    settled = min(size, 5 * 16_000) - 64
    assert np.abs(heard[:settled] - expected[:settled]).max() < RESAMPLED_TOLERANCE


def test_a_video_without_sound_has_its_pictures_and_silence(clips: Clips) -> None:
    watched = watch(clips.make("v.mp4", *greys(5), *H264_BFRAMES))
    assert watched.seconds == list(range(5))
    for second in range(5):
        unit = watched.unit(second)
        check_grey(unit.frame, second)
        assert unit.real_samples == 0
        assert not samples(unit).any()
    assert watched.end.source_end_ms == 4900


def test_three_minutes_at_an_odd_rate_do_not_drift(clips: Clips) -> None:
    """The last of 300 seconds is as exact as the first: 44.1 kHz is 441 to 160."""
    path = clips.make("drift.mka", *ticks(180, rate_hz=44_100), "-c:a", "flac")
    check_ticks(watch(path).sound, 180)


@pytest.mark.skipif(
    os.environ.get(LONG_SETTING) != "1", reason=f"takes minutes: set {LONG_SETTING}=1 to run it"
)
@pytest.mark.parametrize("hours", [1, 6])
@pytest.mark.timeout(1800)
def test_hours_at_an_odd_rate_do_not_drift(clips: Clips, hours: int) -> None:
    seconds = hours * 3600
    path = clips.make(f"drift{hours}.mka", *ticks(seconds, rate_hz=44_100), "-c:a", "flac")
    source = watch(path)
    check_ticks(source.sound, seconds)


def ticks(seconds: int, *, rate_hz: int) -> tuple[str, ...]:
    """One full-band tick at the start of each second, and nothing else."""
    wave = "0.5*lt(mod(n\\," + str(rate_hz) + ")\\,8)"
    return ("-f", "lavfi", "-i", f"aevalsrc={wave}:s={rate_hz}:d={seconds}")


def check_ticks(heard: SAMPLES, seconds: int) -> None:
    peaks = np.abs(heard[: seconds * 16_000]).reshape(seconds, 16_000)
    # The tick is 8 samples long at 44.1 kHz: its middle is 1.5 samples late at 16 kHz.
    places = peaks[1:].argmax(axis=1)
    assert places.min() >= 0
    assert places.max() <= 3


def test_a_clip_that_is_shifted_is_found_to_be_shifted(clips: Clips) -> None:
    """The measure itself, on FFmpeg's own decode of a clip that FFmpeg delayed by 40 ms."""
    path = clips.make("tones.wav", *tones(3, rate_hz=16_000), "-c:a", "pcm_f32le")
    raw = run_ffmpeg("-i", str(path), "-af", "adelay=40", "-f", "f32le", "-")
    late = np.frombuffer(raw, "<f4")
    assert lag_samples(late[16_000:32_000], 1) == 640
