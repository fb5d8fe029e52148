"""Any decoded audio frame as channels of floats, and those as mono, finite and within [-1, 1]."""

from __future__ import annotations

import math
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

READABLE = {"u8": "u1", "s16": "i2", "s32": "i4", "flt": "f4", "dbl": "f8"}
"""Sample formats that are read as they are, as NumPy calls them; their planar forms too."""

READABLE_PLANES = 7
"""Reading a planar frame with more from Python ends the process on PyAV 17 and 18."""

ROUNDING = 1e-6
"""Weights that add up to one in float32 may carry a full-scale sample this far beyond it."""


class Mixdown:
    """Reads frames and mixes channels, and counts what had to be changed on the way."""

    def __init__(self) -> None:
        self.clipped_samples = 0
        self.replaced_samples = 0
        self.layouts: list[str] = []
        """Layouts met so far, each once, in order."""
        self.weights: FLOAT = np.ones(1, np.float32)
        """Of the channels of the frame that was read last; the same object until they change."""
        self._key: tuple[int, str, str] | None = None
        self._packer: Any = None
        self._is_planar = False
        self._dtype: np.dtype[Any] = np.dtype(np.float32)

    def read(self, frame: av.AudioFrame) -> npt.NDArray[Any]:
        """Samples of one frame, shape (channels, samples), in the frame's own number format.

        Raises av.FFmpegError.
        """
        layout = frame.layout.name
        key = (frame.sample_rate, layout, frame.format.name)
        if key != self._key:
            self._expect(frame, key)
        if self._packer is None:
            return self._planes(frame)
        frame.pts = None  # the caller has read it; the packer need not judge it
        packed = [part.to_ndarray().reshape(-1) for part in self._packer.resample(frame)]
        if not packed:
            return np.zeros((self.weights.size, 0), np.float32)
        joined: npt.NDArray[Any] = np.concatenate(packed)
        return joined.reshape(-1, self.weights.size).T

    def floats(self, read: npt.NDArray[Any]) -> FLOAT:
        """What `read` returned, joined or not, as finite floats with full scale at 1."""
        if read.dtype == np.uint8:
            return (read.astype(np.float32) - 128) * np.float32(2**-7)
        if read.dtype.kind == "i":
            return read.astype(np.float32) * np.float32(2.0 ** -(8 * read.dtype.itemsize - 1))
        with np.errstate(over="ignore", invalid="ignore"):
            floats: FLOAT = read.astype(np.float32, copy=False)
            if math.isfinite(float(floats.sum())):
                return floats
        finite = np.isfinite(floats)
        self.replaced_samples += int(floats.size - finite.sum())
        return np.where(finite, floats, np.float32(0))

    def mono(self, channels: FLOAT, weights: FLOAT) -> FLOAT:
        """Channels, shape (channels, samples), averaged by weight."""
        if channels.size == 0:
            return np.zeros(0, np.float32)
        mixed: FLOAT = channels[0] if weights.size == 1 else weights @ channels
        if float(mixed.max()) <= 1.0 and float(mixed.min()) >= -1.0:
            return mixed
        self.clipped_samples += int(np.count_nonzero(np.abs(mixed) > 1.0 + ROUNDING))
        return np.clip(mixed, -1.0, 1.0)

    def _planes(self, frame: av.AudioFrame) -> npt.NDArray[Any]:
        """As `to_ndarray` does, in a third of its time: this runs for every frame."""
        size = frame.samples
        planes: Any = frame.planes
        read: npt.NDArray[Any] = np.empty((self.weights.size, size), self._dtype)
        if not self._is_planar:
            whole = np.frombuffer(planes[0], self._dtype, size * self.weights.size)
            read[:] = whole.reshape(size, self.weights.size).T
            return read
        for channel, plane in enumerate(planes):
            read[channel] = np.frombuffer(plane, self._dtype, size)
        return read

    def _expect(self, frame: av.AudioFrame, key: tuple[int, str, str]) -> None:
        names = [channel.name for channel in frame.layout.channels]
        kind = frame.format.packed.name
        self._is_planar = frame.format.is_planar
        is_read = kind in READABLE and not (self._is_planar and len(names) > READABLE_PLANES)
        self._packer = (
            None
            if is_read
            else av.AudioResampler(format="flt", layout=frame.layout, rate=frame.sample_rate)
        )
        self._dtype = np.dtype(READABLE.get(kind, "f4"))
        self.weights = channel_weights(names)
        if frame.layout.name not in self.layouts:
            self.layouts.append(frame.layout.name)
        self._key = key


def channel_weights(names: list[str]) -> FLOAT:
    """Weights that add up to 1; channels without a known place count alike."""
    if "FC" in names and len(names) > 1:
        raw = np.array([_WEIGHTS.get(name, REAR) for name in names], np.float32)
    else:
        raw = np.array([0.0 if name.startswith("LFE") else 1.0 for name in names], np.float32)
    total = float(raw.sum())
    return raw / np.float32(total) if total > 0 else np.full(len(names), 1 / len(names), np.float32)
