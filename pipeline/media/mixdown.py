"""Any decoded audio frame to mono at its own rate, finite and within [-1, 1]."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import numpy.typing as npt

FLOAT = npt.NDArray[np.float32]

CENTRE, FRONT, REAR = 4.0, 2.0, 1.0
"""Relative weights in a layout with a centre: speech lives there (ITU-R BS.775 gives it the most).

Divided by their sum the mix cannot leave [-1, 1]; dialogue that is only in the centre of 5.1 falls
by 8 dB instead of the 11 dB of FFmpeg's normalised matrix.
"""

_WEIGHTS = {"FC": CENTRE, "FL": FRONT, "FR": FRONT, "LFE": 0.0, "LFE2": 0.0}


class Mixdown:
    """Keeps one converter for the format that frames come in, and makes a new one when it changes.

    Planar frames are never read from Python: with eight channels and more that ends the process on
    PyAV 17 and 18. FFmpeg packs them first.
    """

    def __init__(self) -> None:
        self.clipped_samples = 0
        self.replaced_samples = 0
        self.layouts: list[str] = []
        """Layouts met so far, each once, in order."""
        self._key: tuple[int, str, str] | None = None
        self._packer: Any = None
        self._weights: FLOAT = np.ones(1, np.float32)

    def mono(self, frame: av.AudioFrame) -> FLOAT:
        """Samples of one frame, averaged by channel weight. Raises av.FFmpegError."""
        key = (frame.sample_rate, frame.layout.name, frame.format.name)
        if key != self._key:
            self._packer = av.AudioResampler(
                format="flt", layout=frame.layout, rate=frame.sample_rate
            )
            self._weights = channel_weights([c.name for c in frame.layout.channels])
            self._key = key
            if frame.layout.name not in self.layouts:
                self.layouts.append(frame.layout.name)
        frame.pts = None  # the caller has read it; the packer need not judge it
        packed = [part.to_ndarray().reshape(-1) for part in self._packer.resample(frame)]
        if not packed:
            return np.zeros(0, np.float32)
        samples = np.concatenate(packed).reshape(-1, self._weights.size)
        finite = np.isfinite(samples)
        if not finite.all():
            self.replaced_samples += int(samples.size - finite.sum())
            samples = np.where(finite, samples, np.float32(0))
        # float64 for the sum: large finite inputs must not overflow into what was just removed
        mixed = samples.astype(np.float64) @ self._weights
        over = np.abs(mixed) > 1.0
        if over.any():
            self.clipped_samples += int(over.sum())
            mixed = np.clip(mixed, -1.0, 1.0)
        mono: FLOAT = mixed.astype(np.float32)
        return mono


def channel_weights(names: list[str]) -> FLOAT:
    """Weights that add up to 1; channels without a known place count alike."""
    if "FC" in names and len(names) > 1:
        raw = np.array([_WEIGHTS.get(name, REAR) for name in names], np.float32)
    else:
        raw = np.array([0.0 if name.startswith("LFE") else 1.0 for name in names], np.float32)
    total = float(raw.sum())
    return raw / np.float32(total) if total > 0 else np.full(len(names), 1 / len(names), np.float32)
