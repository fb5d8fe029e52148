"""Every number format, rate, layout and way of padding gives what FFmpeg decodes of it."""

from __future__ import annotations

import os
import tracemalloc
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from pipeline.media.audio import AudioPlacer
from pipeline.media.mixdown import Mixdown, channel_weights
from pipeline.media.remarks import RemarkBook
from pipeline.media.seconds import AudioSecond
from pipeline.media.sound import Sound
from tests.clips import SAMPLES, Clips, ffmpeg_pcm, run_ffmpeg
from tests.pipeline.media.noise import lags, noise_input
from tests.pipeline.media.watched import watch

LONG_SETTING = "OMNAI_TEST_LONG"

PCM = [
    ("wav", "pcm_u8", 8_000, 1),
    ("wav", "pcm_s16le", 11_025, 2),
    ("wav", "pcm_s24le", 192_000, 2),
    ("wav", "pcm_s32le", 44_100, 1),
    ("wav", "pcm_f32le", 16_000, 2),
    ("wav", "pcm_f64le", 48_000, 1),
    ("wav", "pcm_alaw", 8_000, 1),
    ("wav", "pcm_mulaw", 8_000, 2),
    ("wav", "pcm_s16le", 44_100, 3),
    ("wav", "pcm_s16le", 48_000, 5),
    ("wav", "pcm_s16le", 48_000, 8),
    ("wav", "pcm_s16le", 48_000, 10),
    ("aiff", "pcm_s16be", 22_050, 2),
    ("caf", "pcm_s24be", 88_200, 4),
    ("mov", "pcm_s16be", 32_000, 6),
    ("mka", "pcm_s16le", 44_056, 1),
    ("w64", "pcm_f64le", 96_000, 7),
]
"""Container, codec, rate and channels; each channel has a tone of its own."""


def chord(channels: int, rate_hz: int, seconds: float = 0.6) -> tuple[str, ...]:
    waves = "|".join(f"0.5*sin(2*PI*{200 + 130 * n}*t)" for n in range(channels))
    return ("-f", "lavfi", "-i", f"aevalsrc='{waves}':s={rate_hz}:d={seconds}")


@pytest.mark.parametrize(("kind", "codec", "rate_hz", "channels"), PCM)
def test_every_number_format_rate_and_layout_is_mixed_by_its_weights(
    clips: Clips, kind: str, codec: str, rate_hz: int, channels: int
) -> None:
    path = clips.make(f"a.{kind}", *chord(channels, rate_hz), "-c:a", codec)
    watched = watch(path)
    raw = run_ffmpeg("-i", str(path), "-f", "f64le", "-")
    apart = np.frombuffer(raw, "<f8").reshape(-1, channels)
    weights = weights_of(path)
    assert weights.size == channels
    mono = apart @ weights.astype(np.float64)
    expected = resampled(mono.astype(np.float32), rate_hz)
    assert abs(watched.end.real_samples - -(-apart.shape[0] * 16_000 // rate_hz)) <= 1
    size = min(expected.size, watched.end.real_samples) - 40
    assert np.abs(watched.sound[:size] - expected[:size]).max() < 2e-5


def weights_of(path: Path) -> SAMPLES:
    """By the names of the channels that FFmpeg itself gives to the file."""
    with av.open(str(path)) as container:
        frame = next(iter(container.decode(container.streams.audio[0])))
        return channel_weights([channel.name for channel in frame.layout.channels])


def resampled(samples: SAMPLES, rate_hz: int) -> SAMPLES:
    raw = run_ffmpeg(
        *("-f", "f32le", "-ar", str(rate_hz), "-ac", "1", "-i", "pipe:0"),
        *("-ar", "16000", "-f", "f32le", "pipe:1"),
        stdin=samples.tobytes(),
    )
    return np.frombuffer(raw, "<f4")


PADDED = [
    ("m4a", ("-c:a", "aac"), 48_000),
    ("m4a", ("-c:a", "aac"), 22_050),
    ("mp4", ("-c:a", "libmp3lame"), 44_100),
    ("mp4", ("-c:a", "ac3"), 48_000),
    ("mp4", ("-c:a", "libopus"), 48_000),
    ("mp3", ("-c:a", "libmp3lame"), 44_100),
    ("mp3", ("-c:a", "libmp3lame", "-write_xing", "0"), 48_000),
    ("aac", ("-c:a", "aac"), 44_100),
    ("ogg", ("-c:a", "libopus"), 48_000),
    ("ogg", ("-c:a", "libvorbis"), 44_100),
    ("webm", ("-c:a", "libopus"), 48_000),
    ("mka", ("-c:a", "libmp3lame"), 48_000),
    ("mka", ("-c:a", "aac"), 48_000),
    ("ts", ("-c:a", "aac"), 48_000),
    ("ts", ("-c:a", "libopus"), 48_000),
    ("flv", ("-c:a", "aac"), 44_100),
    ("avi", ("-c:a", "libmp3lame"), 48_000),
    ("avi", ("-c:a", "libmp3lame"), 44_100),
    ("amr", ("-c:a", "libopencore_amrnb", "-ar", "8000"), 8_000),
    ("ac3", ("-c:a", "ac3"), 48_000),
    ("flac", ("-c:a", "flac"), 44_100),
]
"""Ways to say (or not to say) what of the decoded sound is a codec's own.

AVI has no place for MP3's delay of 1,105 samples: FFmpeg's own decode of it is as late.
"""


@pytest.mark.parametrize(("kind", "codec", "rate_hz"), PADDED)
def test_priming_and_padding_are_left_out_as_ffmpeg_does(
    clips: Clips, kind: str, codec: tuple[str, ...], rate_hz: int
) -> None:
    try:
        path = clips.make(f"p.{kind}", *noise_input(clips, 2.7), "-ar", str(rate_hz), *codec)
    except AssertionError:
        pytest.skip("this build of FFmpeg has no such encoder")
    expected = ffmpeg_pcm(path)
    watched = watch(path)
    found = lags(expected, watched.sound)
    assert set(found.values()) == {0}
    assert abs(watched.end.real_samples - expected.size) <= 16
    assert watched.end.filled_samples <= 16


MONO = np.ones(1, np.float32)


def placed(sounds: list[Sound]) -> list[AudioSecond]:
    placer = AudioPlacer(RemarkBook(), Mixdown())
    seconds = [second for sound in sounds for second in placer.place(sound)]
    return seconds + list(placer.finish())


@pytest.mark.parametrize(
    ("hole_us", "is_rounded"),
    [(us, False) for us in (2_500, 5_000, 10_000, 21_333, 60_000)]
    + [(us, True) for us in (5_000, 10_000, 26_122)],
)
def test_a_hole_is_filled_to_the_millisecond_however_short(hole_us: int, is_rounded: bool) -> None:
    """Frames of 2.5 ms, dated exactly or in whole milliseconds."""
    rng = np.random.default_rng(0)
    samples = rng.uniform(-0.4, 0.4, 48_000).astype(np.float32)
    sounds = []
    for at in range(0, samples.size, 12_000):
        start = Fraction(at, 48_000) + (Fraction(hole_us, 1_000_000) if at >= 24_000 else 0)
        if is_rounded:
            start = Fraction(round(start * 1000), 1000)
        sounds.append(
            Sound(
                start=start, samples=samples[None, at : at + 12_000], rate_hz=48_000, weights=MONO
            )
        )
    seconds = placed(sounds)
    heard = np.concatenate([second.samples for second in seconds])
    plain = resampled(samples, 48_000)
    late = round(hole_us * 16 / 1000)
    wide = np.concatenate([np.zeros(1000, np.float32), heard, np.zeros(1000, np.float32)])
    around = wide[1000 + 8_100 + late - 300 : 1000 + 15_900 + late + 300]
    matches = np.correlate(around, plain[8_100:15_900], "valid")
    assert abs(int(matches.argmax()) - 300) <= 16
    assert sum(second.real_samples for second in seconds) == pytest.approx(16_000, abs=2)


def test_sound_before_the_start_is_clamped_and_kept() -> None:
    wave = np.random.default_rng(2).uniform(-0.4, 0.4, 16_000).astype(np.float32)
    seconds = placed(
        [
            Sound(
                start=Fraction(-7, 1000), samples=wave[None, :8_000], rate_hz=16_000, weights=MONO
            ),
            Sound(
                start=Fraction(493, 1000), samples=wave[None, 8_000:], rate_hz=16_000, weights=MONO
            ),
        ]
    )
    heard = np.concatenate([second.samples for second in seconds])
    assert np.array_equal(heard[:16_000], wave)


def stream(seconds: int, rate_hz: int) -> tuple[int, float, int]:
    """Seconds placed, the furthest a tick lies from its second, and the most memory held."""
    block = np.zeros(rate_hz // 2, np.float32)
    tick = block.copy()
    tick[:8] = 0.5
    placer = AudioPlacer(RemarkBook(), Mixdown())
    count, furthest = 0, 0.0
    tracemalloc.start()

    def see(found: AudioSecond) -> None:
        nonlocal count, furthest
        count += 1
        assert found.real_samples == 16_000
        if 0 < found.second < seconds - 1:
            furthest = max(furthest, float(np.abs(found.samples).argmax()))

    for n in range(2 * seconds):
        sound = Sound(
            start=Fraction(n, 2),
            samples=(block if n % 2 else tick)[None],
            rate_hz=rate_hz,
            weights=MONO,
        )
        for found in placer.place(sound):
            see(found)
    for found in placer.finish():
        see(found)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return count, furthest, peak


def test_minutes_of_sound_stay_in_place_in_little_memory() -> None:
    count, furthest, peak = stream(120, 44_100)
    assert count == 120
    # The tick is 8 samples long at 44.1 kHz: its middle is 1.5 samples late at 16 kHz.
    assert furthest <= 3
    assert peak < 4_000_000


@pytest.mark.skipif(
    os.environ.get(LONG_SETTING) != "1", reason=f"takes a minute: set {LONG_SETTING}=1 to run it"
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rate_hz", [44_100, 22_050])
def test_six_hours_of_sound_stay_in_place_in_no_more_memory(rate_hz: int) -> None:
    count, furthest, peak = stream(6 * 3600, rate_hz)
    assert count == 6 * 3600
    assert furthest <= 6
    assert peak < 4_000_000
