"""Where rate, channels or clock change nothing is lost, and each second stays in its unit."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pipeline.media.audio import AudioPlacer
from pipeline.media.mixdown import Mixdown
from pipeline.media.remarks import RemarkBook
from pipeline.media.seconds import AudioSecond
from pipeline.media.sound import Sound
from tests.clips import SAMPLES, Clips, run_ffmpeg
from tests.pipeline.media.noise import at_16_khz, lags, noise, noise_input
from tests.pipeline.media.watched import Watched, watch

PART_S = 2
STARTS_S = 10
MUX_DELAY_S = 1.4
"""What FFmpeg's writer of transport streams puts before the first time stamp."""

MONO = np.ones(1, np.float32)

CODECS = {
    "aac": ("-c:a", "aac", "-b:a", "64k"),
    "mp3": ("-c:a", "libmp3lame", "-b:a", "64k"),
    "ac3": ("-c:a", "ac3", "-b:a", "96k"),
    "mp2": ("-c:a", "mp2", "-b:a", "96k"),
}

CHANGES = [
    ("aac", [(48_000, 1), (22_050, 1)]),
    ("aac", [(22_050, 1), (48_000, 1)]),
    ("aac", [(44_100, 2), (8_000, 1), (48_000, 2)]),
    ("aac", [(48_000, 1), (22_050, 1), (44_100, 1)]),
    ("aac", [(48_000, 2), (48_000, 6), (48_000, 1)]),
    ("mp3", [(48_000, 1), (22_050, 2), (44_100, 1)]),
    ("ac3", [(48_000, 1), (32_000, 6), (44_100, 2)]),
    ("mp2", [(48_000, 1), (32_000, 2), (44_100, 1)]),
]
"""Rate and channels of each part of one stream."""


def part(clips: Clips, codec: str, rate_hz: int, channels: int, n: int, offset_s: int) -> Path:
    """Seconds 2·n to 2·n + 2 of the noise, several frames to a PES packet."""
    return clips.make(
        f"{n}.ts",
        *("-ss", str(n * PART_S), "-t", str(PART_S), *noise_input(clips, 6)),
        *("-ar", str(rate_hz), "-ac", str(channels), *CODECS[codec]),
        *("-output_ts_offset", str(offset_s), "-f", "mpegts"),
    )


def joined(clips: Clips, parts: Sequence[Path]) -> Path:
    return clips.write("joined.ts", b"".join(path.read_bytes() for path in parts))


def truth(watched: Watched, seconds: int) -> SAMPLES:
    """The noise as it lies on the source clock."""
    late = STARTS_S + MUX_DELAY_S - watched.probe.origin_ms / 1000
    ahead = np.zeros(round(late * 16_000), np.float32)
    return np.concatenate([ahead, at_16_khz(noise(6))])[: seconds * 16_000]


@pytest.mark.parametrize(("codec", "forms"), CHANGES)
def test_each_part_lies_where_its_time_says(
    clips: Clips, codec: str, forms: list[tuple[int, int]]
) -> None:
    """FFmpeg dates all but the first frame of a PES packet by the stream's first rate."""
    parts = [part(clips, codec, *form, n, STARTS_S + n * PART_S) for n, form in enumerate(forms)]
    watched = watch(joined(clips, parts))
    seconds = PART_S * len(forms)
    found = lags(truth(watched, seconds), watched.sound)
    assert len(found) == 2 * seconds
    # The origin is told in whole milliseconds.
    assert all(lag is not None and abs(lag) <= 16 for lag in found.values()), found
    assert watched.end.filled_samples <= 16
    assert watched.end.real_samples >= seconds * 16_000
    assert not watched.remarks("drift_filled")
    rates = len({rate_hz for rate_hz, _ in forms})
    assert sum(remark.count for remark in watched.remarks("rate_changed")) >= rates - 1
    # Each encoder begins a little before its part: what overlaps is told, and is its priming.
    for remark in watched.remarks("audio_overlaps"):
        assert remark.start_ms is not None
        assert remark.end_ms is not None
        assert remark.end_ms - remark.start_ms < 200


@pytest.mark.parametrize("forms", [[(48_000, 1), (22_050, 1), (44_100, 1)], [(48_000, 1)] * 3])
def test_a_clock_that_begins_anew_at_the_change_loses_nothing(
    clips: Clips, forms: list[tuple[int, int]]
) -> None:
    parts = [part(clips, "aac", *form, n, STARTS_S) for n, form in enumerate(forms)]
    watched = watch(joined(clips, parts))
    assert sum(remark.count for remark in watched.remarks("clock_reset")) == len(forms) - 1
    decoded = sum(
        len(run_ffmpeg("-i", str(path), "-ar", "16000", "-f", "f32le", "-ac", "1", "-")) // 4
        for path in parts
    )
    assert watched.end.real_samples == pytest.approx(decoded, abs=3 * len(forms))
    assert watched.end.filled_samples == 0
    found = lags(truth(watched, 6), watched.sound)
    assert None not in found.values()


def sounds(
    parts: list[tuple[int, Fraction, SAMPLES]], *, per_part: int = 8, only_first: bool = True
) -> list[Sound]:
    """Frames of 1024 samples; only the first of `per_part` has a time, as PES packets give it."""
    made = []
    for rate_hz, start, samples in parts:
        for n, at in enumerate(range(0, samples.size, 1024)):
            has_time = n % per_part == 0 or not only_first
            made.append(
                Sound(
                    start=start + Fraction(at, rate_hz) if has_time else None,
                    samples=samples[None, at : at + 1024],
                    rate_hz=rate_hz,
                    weights=MONO,
                )
            )
    return made


def placed(given: list[Sound]) -> tuple[list[AudioSecond], RemarkBook]:
    remarks = RemarkBook()
    placer = AudioPlacer(remarks, Mixdown())
    seconds = [second for sound in given for second in placer.place(sound)]
    return seconds + list(placer.finish()), remarks


def test_a_change_in_the_middle_of_a_packet_of_frames_goes_on_without_a_time() -> None:
    rates = (48_000, 22_050, 44_100)
    parts, start = [], Fraction(0)
    for rate_hz in rates:
        t = float(start) + np.arange(21 * 1024) / rate_hz
        parts.append((rate_hz, start, (0.5 * np.sin(2 * np.pi * 500 * t)).astype(np.float32)))
        start += Fraction(21 * 1024, rate_hz)
    given = sounds(parts)
    # The time of each part's first packet is that of a frame before the change.
    for n in (21, 22, 42):
        given[n] = Sound(
            start=None,
            samples=given[n].samples,
            rate_hz=given[n].rate_hz,
            weights=given[n].weights,
        )
    seconds, remarks = placed(given)
    assert sum(second.real_samples for second in seconds) == pytest.approx(
        float(start) * 16_000, abs=3
    )
    heard = np.concatenate([second.samples for second in seconds])
    expected = 0.5 * np.sin(2 * np.pi * 500 * np.arange(heard.size) / 16_000)
    off = np.abs(heard - expected)[: int(start * 16_000) - 50]
    for edge in (21 * 1024 / 48_000, 21 * 1024 / 48_000 + 21 * 1024 / 22_050):
        off[int(edge * 16_000) - 50 : int(edge * 16_000) + 50] = 0
    # A part begins at the nearest sample of 16 kHz: half of one is this much of the wave's slope.
    assert off[50:].max() < 0.5 * np.pi * 500 / 16_000 + 0.001
    assert [(remark.code, remark.count) for remark in remarks.remarks()] == [("rate_changed", 2)]


@pytest.mark.parametrize(("said_hz", "true_hz"), [(48_000, 22_050), (22_050, 48_000)])
def test_times_made_of_a_wrong_rate_move_nothing(said_hz: int, true_hz: int) -> None:
    """As a copy of such a transport stream into another container has them for good: each group
    of 8 frames runs off by up to 170 ms, and the next one is right again."""
    samples = noise(4)[: true_hz * 4] if true_hz == 48_000 else noise(4)[:88_200]
    given = sounds([(true_hz, Fraction(0), samples)], only_first=False)
    wrong = [
        Sound(
            start=Fraction(n // 8 * 8 * 1024, true_hz) + Fraction(n % 8 * 1024, said_hz),
            samples=sound.samples,
            rate_hz=true_hz,
            weights=sound.weights,
        )
        for n, sound in enumerate(given)
    ]
    seconds, remarks = placed(wrong)
    plain, _ = placed(given)
    heard = np.concatenate([second.samples for second in seconds])
    expected = np.concatenate([second.samples for second in plain])
    assert np.array_equal(heard, expected)
    assert not remarks.remarks()


def test_parts_that_overlap_fade_into_each_other_without_a_step() -> None:
    """300 ms before the first part's end the second begins, both at the level 0.5."""
    first = (16_000, Fraction(0), np.full(32_768, 0.5, np.float32))
    second = (8_000, Fraction(32_768, 16_000) - Fraction(3, 10), np.full(16_384, 0.5, np.float32))
    seconds, remarks = placed(sounds([first, second], only_first=False))
    heard = np.concatenate([second.samples for second in seconds])
    end = 32_768 - 4_800 + 32_768
    assert sum(second.real_samples for second in seconds) == end
    middle = heard[1000 : end - 1000]
    assert np.abs(middle - 0.5).max() < 0.06  # the second's resampler begins with a ripple
    assert np.abs(np.diff(middle)).max() < 0.03
    (overlap, _) = remarks.remarks()
    assert (overlap.code, overlap.start_ms, overlap.end_ms) == ("audio_overlaps", 1748, 2048)


def test_a_lasting_small_error_is_put_right_and_one_that_comes_and_goes_is_not() -> None:
    samples = noise(6)[: 6 * 16_000]
    frames = [samples[None, at : at + 1600] for at in range(0, samples.size, 1600)]

    def with_errors(errors_ms: list[int]) -> RemarkBook:
        given = [
            Sound(
                start=Fraction(n, 10) + Fraction(error_ms, 1000),
                samples=frame,
                rate_hz=16_000,
                weights=MONO,
            )
            for n, (frame, error_ms) in enumerate(zip(frames, errors_ms, strict=False))
        ]
        return placed(given)[1]

    lasting = [0] * 10 + [n // 8 for n in range(8, 90)]  # creeps by 1 ms in 0.8 s, up to 10 ms
    assert any(r.code == "drift_filled" for r in with_errors(lasting).remarks())
    coming_and_going = [(0, 4, -3, 6, 0, -7)[n % 6] for n in range(60)]
    assert not with_errors(coming_and_going).remarks()


def test_a_step_back_that_lasts_is_followed_at_once() -> None:
    samples = noise(4)[: 4 * 16_000]
    frames = [samples[None, at : at + 8_000] for at in range(0, samples.size, 8_000)]
    given = [
        Sound(
            start=Fraction(n, 2) - (Fraction(20, 1000) if n >= 4 else 0),
            samples=frame,
            rate_hz=16_000,
            weights=MONO,
        )
        for n, frame in enumerate(frames)
    ]
    seconds, remarks = placed(given)
    (overlap,) = remarks.remarks()
    assert (overlap.code, overlap.start_ms, overlap.end_ms) == ("audio_overlaps", 1980, 2000)
    heard = np.concatenate([second.samples for second in seconds])
    assert np.array_equal(heard[32_000:63_680], samples[32_320:64_000])
