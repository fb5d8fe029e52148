"""Samples pushed piece by piece equal FFmpeg's own resampling of the whole."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.media.audio import AudioPlacer
from pipeline.media.mixdown import Mixdown
from pipeline.media.remarks import RemarkBook
from pipeline.media.resample import Resampler
from pipeline.media.seconds import AudioSecond
from pipeline.media.sound import Sound
from tests.clips import SAMPLES, run_ffmpeg

RATES = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000, 192_000)


def noise(size: int, seed: int = 0) -> SAMPLES:
    return np.random.default_rng(seed).uniform(-0.4, 0.4, size).astype(np.float32)


def by_ffmpeg(samples: SAMPLES, rate_hz: int) -> SAMPLES:
    raw = run_ffmpeg(
        *("-f", "f32le", "-ar", str(rate_hz), "-ac", "1", "-i", "pipe:0"),
        *("-ar", "16000", "-f", "f32le", "pipe:1"),
        stdin=samples.tobytes(),
    )
    return np.frombuffer(raw, "<f4")


def in_pieces(samples: SAMPLES, rate_hz: int, sizes: list[int]) -> SAMPLES:
    resampler = Resampler(rate_hz)
    parts, at, turn = [], 0, 0
    while at < samples.size:
        size = sizes[turn % len(sizes)]
        parts.append(resampler.push(samples[at : at + size]))
        at, turn = at + size, turn + 1
    return np.concatenate([*parts, resampler.finish()])


@pytest.mark.parametrize("rate_hz", RATES)
def test_pieces_give_what_ffmpeg_gives_for_the_whole(rate_hz: int) -> None:
    samples = noise(2 * rate_hz + 123)
    expected = by_ffmpeg(samples, rate_hz)
    heard = in_pieces(samples, rate_hz, [1, 1024, 37, 4096])
    size = min(heard.size, expected.size)
    assert size >= 32_000
    assert np.abs(heard[: size - 32] - expected[: size - 32]).max() < 1e-6


@pytest.mark.parametrize("rate_hz", RATES)
@pytest.mark.parametrize("size", [1, 7, 1000, 44_101])
def test_no_sample_is_lost_or_invented(rate_hz: int, size: int) -> None:
    heard = in_pieces(noise(size), rate_hz, [333])
    assert heard.size == -(-size * 16_000 // rate_hz)


MONO = np.ones(1, np.float32)


def sound(start: Fraction | None, samples: SAMPLES, rate_hz: int) -> Sound:
    return Sound(start=start, samples=samples[None], rate_hz=rate_hz, weights=MONO)


def placed(sounds: list[Sound]) -> list[AudioSecond]:
    placer = AudioPlacer(RemarkBook(), Mixdown())
    seconds = [second for sound in sounds for second in placer.place(sound)]
    return seconds + list(placer.finish())


def test_a_change_of_rate_loses_nothing_and_stays_in_time() -> None:
    """3 s at 48 kHz, then 3 s at 22.05 kHz: a tone of 500 Hz goes on as if nothing were."""
    sounds = []
    for first, rate_hz in ((0, 48_000), (3, 22_050)):
        for n in range(0, 3 * rate_hz, 1000):
            t = first + (n + np.arange(min(1000, 3 * rate_hz - n))) / rate_hz
            wave = (0.5 * np.sin(2 * np.pi * 500 * t)).astype(np.float32)
            start = first + Fraction(n, rate_hz)
            sounds.append(sound(start, wave, rate_hz))
    seconds = placed(sounds)
    assert [second.second for second in seconds] == list(range(6))
    assert [second.real_samples for second in seconds] == [16_000] * 6
    heard = np.concatenate([second.samples for second in seconds])
    expected = 0.5 * np.sin(2 * np.pi * 500 * np.arange(96_000) / 16_000)
    off = np.abs(heard - expected)
    assert off[200:47_900].max() < 0.01
    assert off[48_100:95_800].max() < 0.01


def test_sound_without_time_stamps_follows_what_came_before() -> None:
    sounds = [sound(Fraction(0), noise(1024), 16_000)]
    sounds += [sound(None, noise(1024, n), 16_000) for n in range(1, 40)]
    seconds = placed(sounds)
    heard = np.concatenate([second.samples for second in seconds])[: 40 * 1024]
    assert np.array_equal(heard, np.concatenate([sound.samples[0] for sound in sounds]))


def test_a_frame_dated_late_that_the_next_one_takes_back_is_no_hole() -> None:
    """Vorbis at 44.1 kHz dates the block before a change of block size 448 samples late."""
    sounds, at = [], 0
    for n in range(90):
        late = 448 if n % 20 == 7 else 0
        size = 576 if late else 1024
        start = Fraction(at + late, 44_100)
        sounds.append(sound(start, noise(size, n), 44_100))
        at += size
    seconds = placed(sounds)
    assert sum(second.real_samples for second in seconds) == -(-at * 16_000 // 44_100)
    whole = by_ffmpeg(np.concatenate([sound.samples[0] for sound in sounds]), 44_100)
    heard = np.concatenate([second.samples for second in seconds])
    assert np.abs(heard[:32_000] - whole[:32_000]).max() < 1e-6


@settings(max_examples=60, deadline=None)
@given(
    rate_hz=st.sampled_from(RATES),
    steps=st.lists(
        st.tuples(
            st.integers(0, 3000),  # samples
            st.sampled_from([0, 0, 0, 1, -1, 5, 11, 30, 700, 2500, 31_000, -200, -900]),  # ms
            st.booleans(),
        ),
        max_size=25,
    ),
)
def test_every_real_sample_is_kept_in_order_whatever_the_times_say(
    rate_hz: int, steps: list[tuple[int, int, bool]]
) -> None:
    sounds, at, total = [], Fraction(0), 0
    for size, off_ms, has_time in steps:
        at = max(at + Fraction(off_ms, 1000), Fraction(0))
        samples = np.full(size, 0.5, np.float32)
        sounds.append(sound(at if has_time else None, samples, rate_hz))
        at += Fraction(size, rate_hz)
        total += size
    remarks = RemarkBook()
    placer = AudioPlacer(remarks, Mixdown())
    seconds = [second for sound in sounds for second in placer.place(sound)]
    seconds += list(placer.finish())
    numbers = [second.second for second in seconds]
    assert numbers == sorted(set(numbers))
    real = sum(second.real_samples for second in seconds)
    expected = total * 16_000 / rate_hz
    assert real <= expected + 1 + len(steps)
    if not any(remark.code == "audio_overlaps" for remark in remarks.remarks()):
        assert real >= expected - 1
    for second in seconds:
        assert 0 < second.real_samples <= 16_000
        assert second.real_start >= second.second * 16_000
        assert second.real_end <= (second.second + 1) * 16_000
