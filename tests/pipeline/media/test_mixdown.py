"""Any frame becomes mono within [-1, 1] at its own rate, and no layout ends the process."""

from __future__ import annotations

import av
import numpy as np
import pytest

from pipeline.media.mixdown import Mixdown, channel_weights
from tests.clips import AAC, SAMPLES, Clips, ffmpeg_pcm
from tests.pipeline.media.watched import watch


def frame(channels: SAMPLES, layout: str, *, format: str = "fltp", rate: int = 48_000) -> object:
    made = av.AudioFrame.from_ndarray(channels, format=format, layout=layout)
    made.sample_rate = rate
    return made


def constant(*levels: float, samples: int = 480) -> SAMPLES:
    return np.repeat(np.asarray(levels, np.float32)[:, None], samples, axis=1)


def mono(made: object, mixdown: Mixdown | None = None) -> SAMPLES:
    mixdown = Mixdown() if mixdown is None else mixdown
    read = mixdown.read(made)  # type: ignore[arg-type]
    return mixdown.mono(mixdown.floats(read), mixdown.weights)


@pytest.mark.parametrize(
    ("levels", "layout", "expected"),
    [
        ((0.9, 0.9), "stereo", 0.9),
        ((0.9, -0.7), "stereo", 0.1),
        ((1.0, 0.0), "stereo", 0.5),
        ((0.7,), "mono", 0.7),
        ((0.9,) * 6, "5.1", 0.9),
        # FL FR FC LFE BL BR: 2, 2, 4, 0, 1, 1 of 10
        ((0, 0, 1, 0, 0, 0), "5.1", 0.4),
        ((0, 0, 0, 1, 0, 0), "5.1", 0.0),
        ((1, 0, 0, 0, 0, 0), "5.1", 0.2),
        ((0, 0, 0, 0, 1, 0), "5.1", 0.1),
    ],
)
def test_channels_are_averaged_by_their_weight(
    levels: tuple[float, ...], layout: str, expected: float
) -> None:
    heard = mono(frame(constant(*levels), layout))
    assert heard.size == 480
    assert np.abs(heard - expected).max() < 1e-6


@pytest.mark.parametrize("names", [["FL", "FR"], ["FC"], ["LFE"], ["NONE"] * 16, ["FL", "FC"]])
def test_weights_add_up_to_one(names: list[str]) -> None:
    assert float(channel_weights(names).sum()) == pytest.approx(1.0, abs=1e-6)


def test_a_layout_that_changes_in_mid_stream_is_followed() -> None:
    mixdown = Mixdown()
    first = mono(frame(constant(*[0.3] * 6), "5.1"), mixdown)
    second = mono(frame(constant(0.2, 0.4), "stereo"), mixdown)
    third = mono(frame(constant(0.5), "mono", rate=22_050), mixdown)
    assert [float(part.mean()) for part in (first, second, third)] == pytest.approx([0.3, 0.3, 0.5])
    assert mixdown.layouts == ["5.1", "stereo", "mono"] or len(mixdown.layouts) == 3


def test_values_that_are_no_numbers_become_counted_silence() -> None:
    samples = constant(0.25, 0.25)
    samples[0, 10], samples[1, 20], samples[0, 30] = np.nan, np.inf, -np.inf
    mixdown = Mixdown()
    heard = mono(frame(samples, "stereo"), mixdown)
    assert mixdown.replaced_samples == 3
    assert np.isfinite(heard).all()
    assert [float(heard[at]) for at in (9, 10, 20, 30)] == pytest.approx([0.25, *[0.125] * 3])


def test_too_loud_samples_are_brought_back_and_counted() -> None:
    samples = constant(0.5)
    samples[0, :7], samples[0, 7:10] = 3.0, -3e38
    mixdown = Mixdown()
    heard = mono(frame(samples, "mono"), mixdown)
    assert mixdown.clipped_samples == 10
    assert heard[:10].tolist() == [1.0] * 7 + [-1.0] * 3


def test_two_finite_channels_do_not_overflow_into_infinity() -> None:
    heard = mono(frame(constant(3e38, 3e38, 3e38), "3.0"))
    assert heard.tolist() == [1.0] * 480


def test_a_broken_sample_does_not_spread_through_the_resampler(clips: Clips) -> None:
    """One NaN would become dozens at 16 kHz; replaced before, it is one zero."""
    raw = constant(0.25, samples=48_000)[0]
    raw[24_000] = np.nan
    source = clips.write("nan.f32", raw.astype("<f4").tobytes())
    path = clips.make("nan.wav", *("-f", "f32le", "-ar", "48000"), "-ac", "1", "-i", str(source))
    watched = watch(path)  # s16: FFmpeg's own encoder has made a number of it
    assert watched.end.replaced_samples == 0
    path = clips.make(
        "nan32.wav", *("-f", "f32le", "-ar", "48000", "-ac", "1"), "-i", str(source), "-c", "copy"
    )
    watched = watch(path)
    assert watched.end.replaced_samples == 1
    assert np.abs(watched.sound[100:15_900] - 0.25).max() < 0.1
    assert np.count_nonzero(np.abs(watched.sound[100:15_900] - 0.25) > 0.02) < 20


def test_seven_channels_and_a_bass_of_aac_do_not_end_the_process(clips: Clips) -> None:
    path = clips.make(
        "71.m4a",
        *("-f", "lavfi", "-i", "sine=f=500:r=48000:d=2"),
        *("-af", "pan=7.1|FL=c0|FR=c0|FC=c0|LFE=c0|BL=c0|BR=c0|SL=c0|SR=c0", *AAC),
    )
    watched = watch(path)
    assert watched.seconds[:2] == [0, 1]
    # All channels carry the same wave, so that the mix has the level of each: of FFmpeg's first.
    front = ffmpeg_pcm(path, filters="pan=mono|c0=c0")
    assert np.abs(front[2000:14_000]).max() > 0.1
    level = np.abs(watched.sound[2000:14_000]).max() / np.abs(front[2000:14_000]).max()
    assert level == pytest.approx(1.0, abs=0.03)


def test_loud_stereo_that_is_in_phase_keeps_its_level(clips: Clips) -> None:
    path = clips.make(
        "loud.wav",
        *("-f", "lavfi", "-i", "aevalsrc='0.9*sin(2*PI*440*t)|0.9*sin(2*PI*440*t)':s=48000:d=2"),
    )
    watched = watch(path)
    assert float(np.abs(watched.sound[1000:30_000]).max()) == pytest.approx(0.9, abs=0.005)
    assert watched.end.clipped_samples == 0
    left = ffmpeg_pcm(path, filters="pan=mono|c0=c0")
    assert np.abs(watched.sound[: left.size] - left).max() < 1e-4
