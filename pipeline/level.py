"""How loud a unit is."""

from __future__ import annotations

import math

import numpy as np


def rms_dbfs(pcm: bytes) -> float | None:
    """Root mean square of float32 samples in dB below full scale; None for digital silence."""
    samples = np.frombuffer(pcm, dtype="<f4").astype(np.float64)
    power = float(np.mean(np.square(samples))) if samples.size else 0.0
    return round(10 * math.log10(power), 2) if power > 0 else None
