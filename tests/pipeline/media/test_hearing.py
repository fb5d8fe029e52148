"""Digital silence and one-sided sound are told as ranges, and a quiet room is neither."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pipeline.media.hearing import Hearing
from pipeline.media.levels import levels
from pipeline.media.remarks import RemarkBook
from pipeline.records import Remark
from tests.clips import SAMPLES, Clips
from tests.pipeline.media.watched import watch

RATE_HZ = 8_000


def tone(seconds: float, *, level: float = 0.3, rate_hz: int = RATE_HZ) -> SAMPLES:
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return (level * np.sin(2 * np.pi * 440 * t + 0.3)).astype(np.float32)


def zeros(seconds: float) -> SAMPLES:
    return np.zeros(round(seconds * RATE_HZ), np.float32)


def hum(seconds: float, *, level: float = 1e-4, seed: int = 0) -> SAMPLES:
    """A quiet room: noise at -80 dBFS."""
    drawn = np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ))
    return (level * drawn).astype(np.float32)


def heard(*channels: SAMPLES, piece: int = 3_001, start: float = 0) -> list[Remark]:
    remarks = RemarkBook()
    hearing = Hearing(remarks)
    both = np.stack(channels)
    for at in range(0, both.shape[1], piece):
        part = both[:, at : at + piece]
        time = Fraction(at, RATE_HZ) + Fraction(start)
        hearing.hear(part, time, RATE_HZ)
        if len(channels) == 2:
            hearing.hear_sides(levels(part, RATE_HZ), time, RATE_HZ)
    hearing.pause()
    return list(remarks.remarks())


def ranges(remarks: list[Remark], code: str) -> list[tuple[int | None, int | None]]:
    return [(remark.start_ms, remark.end_ms) for remark in remarks if remark.code == code]


@pytest.mark.parametrize("piece", [1, 577, 3_001, 8_000, 60_000])
def test_zeros_are_told_to_the_millisecond_whatever_pieces_they_come_in(piece: int) -> None:
    wave = np.concatenate([tone(1.25), zeros(1.5), tone(0.5), zeros(2.25)])
    wave = wave[: 2_000 if piece == 1 else None]
    found = ranges(heard(wave, piece=piece, start=3), "audio_silent")
    assert found == ([] if piece == 1 else [(4250, 5750), (6250, 8500)])


def test_a_pause_of_less_than_a_second_and_a_quiet_room_are_no_digital_silence() -> None:
    assert not heard(np.concatenate([tone(1), zeros(0.9), tone(1)]))
    assert not ranges(heard(hum(5)), "audio_silent")
    dither = np.where(np.arange(40_000) % 4_000, 0, 2.0**-23).astype(np.float32)
    assert not heard(dither)  # the smallest step of 24 bits, twice a second


def test_what_a_decoder_leaves_of_zeros_is_silence() -> None:
    assert ranges(heard(hum(3, level=1e-12)), "audio_silent") == [(0, 3000)]


def test_silence_is_that_of_all_channels_and_ends_where_nothing_follows() -> None:
    assert not ranges(heard(zeros(3), tone(3)), "audio_silent")
    assert ranges(heard(zeros(3), zeros(3), zeros(3)), "audio_silent") == [(0, 3000)]
    remarks = RemarkBook()
    hearing = Hearing(remarks)
    for start in (0, 2):
        hearing.hear(zeros(1.5)[None], Fraction(start), RATE_HZ)
        hearing.pause()
    assert ranges(list(remarks.remarks()), "audio_silent") == [(0, 1500), (2000, 3500)]


def test_one_sided_sound_is_told_with_its_side() -> None:
    both, left = tone(2), tone(3)
    found = heard(
        np.concatenate([both, left, both, hum(4, seed=1)]),
        np.concatenate([both, hum(3), both, tone(4)]),
        piece=800,
    )
    assert ranges(found, "audio_one_sided") == [(2000, 5000), (7000, 11_000)]
    assert ["left" in remark.message for remark in found] == [True, False]


def test_a_pause_in_the_speech_does_not_end_its_side() -> None:
    speech = np.concatenate([tone(1), hum(1, seed=1), tone(1), hum(1, seed=2)])
    found = ranges(heard(speech, hum(4), piece=800), "audio_one_sided")
    assert found == [(0, 3000)]


def test_sides_are_not_told_of_a_quiet_room_a_panned_voice_or_a_short_effect() -> None:
    assert not heard(hum(5), hum(5, level=1e-7))
    assert not heard(tone(5), tone(5, level=0.3 * 10 ** (-30 / 20)))
    assert not heard(np.concatenate([tone(1.9), tone(2)]), np.concatenate([hum(1.9), tone(2)]))


WAVE = "0.3*sin(2*PI*440*t)"


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.wav", ("-c:a", "pcm_s16le")),
        ("a.m4a", ("-c:a", "aac")),
        ("a.mp3", ("-c:a", "libmp3lame")),
        ("a.ogg", ("-c:a", "libvorbis")),
        ("a.flac", ("-c:a", "flac")),
    ],
)
def test_silence_in_a_recording_is_told_in_its_own_time(
    clips: Clips, name: str, codec: tuple[str, ...]
) -> None:
    gated = f"{WAVE}*not(between(t,1.05,4.02))"
    path = clips.make(name, "-f", "lavfi", "-i", f"aevalsrc='{gated}|{gated}':s=44100:d=5", *codec)
    (silent,) = watch(path).remarks("audio_silent")
    assert silent.start_ms == pytest.approx(1050, abs=30)  # a codec's own window reaches into it
    assert silent.end_ms == pytest.approx(4020, abs=30)


def test_one_side_of_a_recording_is_told_and_kept_as_ffmpeg_mixes_it(clips: Clips) -> None:
    path = clips.make(
        "side.wav", "-f", "lavfi", "-i", f"aevalsrc='0|{WAVE}':s=48000:d=3", "-c:a", "pcm_s16le"
    )
    watched = watch(path)
    (sided,) = watched.remarks("audio_one_sided")
    assert (sided.start_ms, sided.end_ms) == (0, 3000)
    assert "right" in sided.message
    assert np.abs(watched.sound[1000:40_000]).max() == pytest.approx(0.15, abs=0.002)
