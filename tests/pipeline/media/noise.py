"""Noise in which every stretch is found again wherever it comes to lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.clips import SAMPLES, Clips, run_ffmpeg

RATE_HZ = 48_000
PIECE = 8_000
"""Half a second at 16 kHz."""

ALIKE_MIN = 0.6
"""Correlation below which a piece holds something else."""


def noise(seconds: float, *, seed: int = 1) -> SAMPLES:
    """Noise below 3 kHz, which every codec keeps, at 48 kHz."""
    white = np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ))
    taps = np.sinc(np.arange(-64, 65) / 8) * np.hanning(129)
    low = np.convolve(white, taps, "same")
    return (0.4 * low / np.abs(low).max()).astype(np.float32)


def noise_input(clips: Clips, seconds: float) -> tuple[str, ...]:
    """FFmpeg's arguments to read that noise."""
    path = clips.write("noise.f32", noise(seconds).astype("<f4").tobytes())
    return ("-f", "f32le", "-ar", str(RATE_HZ), "-ac", "1", "-i", str(path))


def at_16_khz(samples: SAMPLES) -> SAMPLES:
    raw = run_ffmpeg(
        *("-f", "f32le", "-ar", str(RATE_HZ), "-ac", "1", "-i", "pipe:0"),
        *("-ar", "16000", "-f", "f32le", "pipe:1"),
        stdin=samples.astype("<f4").tobytes(),
    )
    return np.frombuffer(raw, "<f4")


def decoded_seconds(path: Path) -> float:
    """How much FFmpeg decodes of a file, whatever its time stamps say and past every error."""
    raw = run_ffmpeg(
        *("-i", str(path), "-map", "0:a:0", "-f", "f32le", "-ac", "1", "-ar", "16000", "-"),
        must_succeed=False,
    )
    return len(raw) / 4 / 16_000


def lags(reference: SAMPLES, heard: SAMPLES, *, reach: int = 2000) -> dict[int, int | None]:
    """By how many samples each piece comes late; None where it is not what it should be."""
    found: dict[int, int | None] = {}
    size = 1 << 15
    for start in range(0, min(reference.size, heard.size) - PIECE + 1, PIECE):
        wanted, got = reference[start : start + PIECE], heard[start : start + PIECE]
        spectrum = np.fft.rfft(got, size) * np.conj(np.fft.rfft(wanted, size))
        crossed = np.fft.irfft(spectrum, size)
        near = np.concatenate([crossed[-reach:], crossed[: reach + 1]])
        alike = near.max() / np.sqrt(np.dot(wanted, wanted) * np.dot(got, got) + 1e-12)
        found[start // PIECE] = int(near.argmax()) - reach if alike > ALIKE_MIN else None
    return found
