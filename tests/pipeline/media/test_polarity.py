"""Channels that cancel each other in mono are heard, without a click, and others are left alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pipeline.media.levels import levels
from pipeline.media.polarity import Polarity
from pipeline.media.remarks import RemarkBook
from pipeline.records import Remark
from tests.clips import SAMPLES, Clips, ffmpeg_pcm
from tests.pipeline.media.watched import watch

RATE_HZ = 8_000


def speech(seconds: float, *, seed: int = 0) -> SAMPLES:
    """A voice's shape: 150 Hz and its harmonics, in syllables of 200 ms and pauses."""
    t = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    voice = sum(np.sin(2 * np.pi * 150 * n * t + n * n) / n for n in range(1, 12))
    opened = np.clip(np.sin(2 * np.pi * 2.5 * t + seed), 0, 1)
    return (0.12 * voice * opened).astype(np.float32)


def room(seconds: float, seed: int, *, level: float = 1e-4) -> SAMPLES:
    drawn = np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ))
    return (level * drawn).astype(np.float32)


def mixed(left: SAMPLES, right: SAMPLES, *, piece: int = 4_096) -> tuple[SAMPLES, list[Remark]]:
    remarks = RemarkBook()
    polarity = Polarity(remarks)
    both = np.stack([left, right])
    passed = []
    for at in range(0, both.shape[1], piece):
        part = both[:, at : at + piece]
        passed += polarity.push(part, levels(part, RATE_HZ), Fraction(at, RATE_HZ), RATE_HZ)
    passed += polarity.finish()
    joined = np.concatenate(passed, axis=1)
    assert joined.shape == both.shape
    assert np.array_equal(joined[0], left)
    return joined.mean(axis=0), list(remarks.remarks())


@pytest.mark.parametrize("piece", [333, 4_096, 100_000])
def test_an_inverted_channel_is_turned_over_from_the_first_sample(piece: int) -> None:
    voice = speech(6)
    mono, (told,) = mixed(voice + room(6, 1), -voice + room(6, 2), piece=piece)
    assert np.abs(mono - voice)[200:].max() < 1e-3
    assert (told.code, told.start_ms, told.end_ms) == ("audio_out_of_phase", 0, 6000)


def test_sound_that_does_not_cancel_is_passed_as_it_is() -> None:
    voice, other = speech(6), speech(6, seed=1)
    music = room(6, 3, level=0.2)
    for left, right in [
        (voice, voice),
        (voice, room(6, 1)),
        (voice, other),
        (music, room(6, 4, level=0.2)),
        (voice, -0.5 * voice),
        (room(6, 1), -room(6, 1)),  # a room's hum is not worth a turn
        (np.zeros_like(voice), np.zeros_like(voice)),
    ]:
        mono, told = mixed(left, right)
        assert np.array_equal(mono, np.stack([left, right]).mean(axis=0)) or not told
        assert not told


def test_the_limit_is_13_decibels() -> None:
    t = np.arange(4 * RATE_HZ) / RATE_HZ
    middle, side = np.sin(2 * np.pi * 500 * t), np.sin(2 * np.pi * 300 * t)
    for below_db, is_turned in ((12, False), (14, True)):
        amount = 0.3 * 10 ** (-below_db / 20)
        left = (amount * middle + 0.3 * side).astype(np.float32)
        right = (amount * middle - 0.3 * side).astype(np.float32)
        assert bool(mixed(left, right)[1]) is is_turned


def test_a_turn_there_and_back_makes_no_click_and_takes_a_tenth_of_a_second() -> None:
    t = np.arange(9 * RATE_HZ) / RATE_HZ
    wave = (0.3 * np.sin(2 * np.pi * 200 * t)).astype(np.float32)
    sign = np.where((t >= 3.05) & (t < 6.02), -1, 1).astype(np.float32)
    # The source itself jumps where its polarity does: at a zero of the wave there is no step.
    mono, (told,) = mixed(wave, wave * sign)
    assert told.start_ms == pytest.approx(3050, abs=101)
    assert told.end_ms == pytest.approx(6020, abs=101)
    steepest = 2 * np.pi * 200 / RATE_HZ * 0.3
    assert np.abs(np.diff(mono)).max() < 1.35 * steepest
    quiet = np.abs(mono - wave) > 0.01
    assert quiet.sum() < 0.2 * RATE_HZ + 400


def test_pauses_and_short_words_do_not_turn_it_back_and_forth() -> None:
    voice = speech(20)
    voice[8 * RATE_HZ : 12 * RATE_HZ] = 0
    left, right = voice + room(20, 5), -voice + room(20, 6)
    _, told = mixed(left, right)
    assert [remark.count for remark in told] == [1]
    left = (0.3 * np.sin(np.arange(6 * RATE_HZ) / 4)).astype(np.float32)
    right = left.copy()
    right[3 * RATE_HZ : 3 * RATE_HZ + 1_800] *= -1  # 225 ms of it hold two whole blocks
    assert not mixed(left, right)[1]


@pytest.mark.parametrize("codec", ["pcm_s16le", "aac"])
def test_a_recording_with_one_microphone_wired_the_wrong_way_is_heard(
    clips: Clips, codec: str
) -> None:
    wave = "0.4*sin(2*PI*440*t)*(0.6+0.4*sin(7*t))"
    path = clips.make(
        "wired.mka", "-f", "lavfi", "-i", f"aevalsrc='{wave}|-({wave})':s=48000:d=4", "-c:a", codec
    )
    watched = watch(path)
    left = ffmpeg_pcm(path, filters="pan=mono|c0=c0")
    size = min(left.size, watched.sound.size) - 100
    tolerance = 1e-4 if codec == "pcm_s16le" else 0.02
    assert np.abs(watched.sound[:size] - left[:size])[400:].max() < tolerance
    (told,) = watched.remarks("audio_out_of_phase")
    assert "inverted" in told.message
    assert (told.start_ms, told.end_ms) == (0, pytest.approx(4000, abs=30))


def test_loud_stereo_in_phase_never_leaves_the_range(clips: Clips) -> None:
    wave = "0.99*sin(2*PI*440*t)"
    path = clips.make("loud.wav", "-f", "lavfi", "-i", f"aevalsrc='{wave}|{wave}':s=44100:d=2")
    watched = watch(path)
    assert not watched.remarks("audio_out_of_phase")
    assert watched.end.clipped_samples == 0
    assert np.abs(watched.sound).max() == pytest.approx(0.99, abs=0.005)
