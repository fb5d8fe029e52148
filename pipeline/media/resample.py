"""Mono samples at any rate to 16 kHz, with the filter's state carried across every border."""

from __future__ import annotations

from typing import Any

import av
import numpy as np

from pipeline.clock import SAMPLE_RATE_HZ
from pipeline.media.mixdown import FLOAT


class Resampler:
    """FFmpeg's own resampler (swresample, its defaults) over one unbroken stretch of samples.

    What it returns, joined, equals one call over the whole stretch.
    """

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self.samples_in = 0
        self.samples_out = 0
        self._converter: Any = (
            None
            if rate_hz == SAMPLE_RATE_HZ
            else av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE_HZ)
        )

    def push(self, samples: FLOAT) -> FLOAT:
        """Feed samples and return what is ready; the filter holds some back."""
        self.samples_in += samples.size
        if self._converter is None:
            return self._out(samples)
        if samples.size == 0:
            return samples
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="mono")
        frame.sample_rate = self.rate_hz
        return self._out(_join(self._converter.resample(frame)))

    def finish(self) -> FLOAT:
        """The rest, so that the whole has ceil(in × 16000 / rate) samples."""
        due = -(-self.samples_in * SAMPLE_RATE_HZ // self.rate_hz) - self.samples_out
        if self._converter is None or self.samples_in == 0:
            return np.zeros(max(due, 0), np.float32)
        rest = _join(self._converter.resample(None))[: max(due, 0)]
        return self._out(np.concatenate([rest, np.zeros(max(due - rest.size, 0), np.float32)]))

    def _out(self, samples: FLOAT) -> FLOAT:
        self.samples_out += samples.size
        return samples


def _join(frames: list[av.AudioFrame]) -> FLOAT:
    if not frames:
        return np.zeros(0, np.float32)
    # The filter overshoots by a little at full scale; a unit may not leave [-1, 1].
    joined: FLOAT = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
    return np.clip(joined, -1.0, 1.0)
