"""Loudness against levels that are known without a computer."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.level import rms_dbfs


def pcm(samples: object) -> bytes:
    return np.asarray(samples, "<f4").tobytes()


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.ones(16_000), 0.0),  # full scale
        (np.full(16_000, -0.5), -6.02),  # half of it: 20·log10(1/2)
        (np.full(16_000, 0.1), -20.0),
        (np.sin(np.arange(16_000) * 2 * np.pi / 16), -3.01),  # a full-scale sine: 1/√2
        (np.r_[np.ones(1600), np.zeros(14_400)], -10.0),  # a tenth of the time
    ],
)
def test_loudness_is_the_root_mean_square_below_full_scale(
    samples: np.ndarray, expected: float
) -> None:
    assert rms_dbfs(pcm(samples)) == pytest.approx(expected, abs=0.01)


def test_digital_silence_has_no_loudness() -> None:
    assert rms_dbfs(pcm(np.zeros(16_000))) is None
    assert rms_dbfs(b"") is None


def test_the_quietest_sample_is_not_silence() -> None:
    quiet = np.zeros(16_000)
    quiet[7] = 1e-20  # squared it is below what float32 can hold
    level = rms_dbfs(pcm(quiet))
    assert level is not None
    assert level == pytest.approx(-442.04, abs=0.1)  # -400 dB, less 10·log10(16,000)
