"""Decodes one unit for the model on the CPU, before anything native is called."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image

from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.errors import UnitRefused
from pipeline.records import Frame, Unit

FRAME_EDGE_MIN_PX = 14
"""One patch. The model's own code takes a picture that is 1 or 3 pixels high for another layout."""

FRAME_ASPECT_MAX = 20
"""Long edge to short edge. The model keeps a table as large as the longest picture it ever saw in
both directions: 0.2 GB at this ratio, and gigabytes at a hundred."""


@dataclass(frozen=True, kw_only=True)
class NativeInputs:
    """One unit as the model takes it."""

    samples: npt.NDArray[np.float32]
    """Shape (16000,), within [-1, 1], at 16 kHz."""
    frames: list[Image.Image] = field(default_factory=list)
    """At most one RGB picture."""


def silence() -> NativeInputs:
    return NativeInputs(samples=np.zeros(SAMPLES_PER_UNIT, np.float32))


def decode(unit: Unit) -> NativeInputs:
    """Raises UnitRefused; samples and sizes as declared were checked by the session."""
    samples = np.frombuffer(unit.pcm, dtype="<f4").astype(np.float32)
    frames = [] if unit.frame is None else [_picture(unit.frame)]
    return NativeInputs(samples=samples, frames=frames)


def _picture(frame: Frame) -> Image.Image:
    """The bytes are hostile: what they claim is compared, before a pixel is decoded, with the size
    that the session has held to its bounds."""
    try:
        with Image.open(io.BytesIO(frame.jpeg), formats=("JPEG",)) as image:
            if image.size != (frame.width_px, frame.height_px):
                raise UnitRefused(
                    "frame",
                    f"its frame is said to be {frame.width_px}×{frame.height_px} and is"
                    f" {image.width}×{image.height}; both must be the same",
                )
            return _within_shape(image.convert("RGB"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UnitRefused("frame", "its frame is no complete JPEG picture") from error


def _within_shape(image: Image.Image) -> Image.Image:
    """A ticker's strip or a dot in the middle of black: the model's own code would fail at it
    half-way, or keep its table for ever."""
    least_px = max(FRAME_EDGE_MIN_PX, -(-max(image.size) // FRAME_ASPECT_MAX))
    width, height = (max(edge, least_px) for edge in image.size)
    if (width, height) == image.size:
        return image
    canvas = Image.new("RGB", (width, height))
    canvas.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
    return canvas
