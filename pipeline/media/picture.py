"""A decoded picture as an upright RGB JPEG at its display shape."""

from __future__ import annotations

import hashlib
import io
import math
import struct
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from pipeline.media.colour import PIXELS, Shown, shown
from pipeline.media.sidedata import side_data
from pipeline.records import FRAME_BYTES_MAX, Frame

if TYPE_CHECKING:
    import av

JPEG_QUALITIES = (90, 80, 65, 45, 25)
"""Tried in turn until the picture fits FRAME_BYTES_MAX; slides stay sharp at the first."""

PIXELS_MAX = 1920 * 1080
"""Most pixels of a frame, whatever its edges (docs: model interface, "Video transport")."""

MATRIX_BYTES = 36
"""Nine numbers of 16.16 fixed point."""


def encode_frame(pixels: PIXELS, *, source_ms: int) -> Frame:
    """These pixels, [height, width, 3], as a JPEG of at most FRAME_BYTES_MAX."""
    image = Image.fromarray(pixels)
    jpeg = _fitting_jpeg(image)
    while jpeg is None:
        image = image.reduce(2)  # noise at full size passes the bound at every quality
        jpeg = _fitting_jpeg(image)
    return Frame(
        source_ms=source_ms,
        width_px=image.width,
        height_px=image.height,
        jpeg=jpeg,
        sha256=hashlib.sha256(jpeg).hexdigest(),
    )


def _fitting_jpeg(image: Image.Image) -> bytes | None:
    """The image at the best quality that fits FRAME_BYTES_MAX; None where none does."""
    for quality in JPEG_QUALITIES:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality, subsampling=0 if quality >= 80 else 2)
        if buffer.tell() <= FRAME_BYTES_MAX:
            return buffer.getvalue()
    return None


def upright(frame: av.VideoFrame, *, aspect: Fraction, longest_edge_px: int) -> Shown:
    """The frame as it is shown, at most `longest_edge_px` long, never enlarged.

    `aspect` is the width of a stored pixel over its height. Raises av.FFmpegError where the frame
    cannot be converted.
    """
    width, height = _target_size(frame, aspect, longest_edge_px)
    made = shown(frame, width=width, height=height)
    return replace(made, pixels=np.ascontiguousarray(_turned(made.pixels, frame)))


def _target_size(frame: av.VideoFrame, aspect: Fraction, longest_edge_px: int) -> tuple[int, int]:
    """Display shape by shrinking the longer side of a pixel, so that nothing is enlarged."""
    width, height = Fraction(frame.width), Fraction(frame.height)
    if aspect > 1:
        height /= aspect
    else:
        width *= aspect
    scale = min(
        1.0,
        longest_edge_px / float(max(width, height)),
        math.sqrt(PIXELS_MAX / float(width * height)),
    )
    # Floor of the area bound: rounding up both edges could pass PIXELS_MAX.
    target = [max(1, round(float(edge) * scale)) for edge in (width, height)]
    if target[0] * target[1] > PIXELS_MAX:
        target[target.index(max(target))] -= 1
    return target[0], target[1]


def _turned(pixels: PIXELS, frame: av.VideoFrame) -> PIXELS:
    """Apply the display matrix where it is a flip or a multiple of 90°; other angles stay.

    The matrix maps stored (x, y) to shown (x·a + y·c, x·b + y·d) with y downward (ISO/IEC 14496-12,
    8.3.2); `frame.rotation` reads a mirror as a half turn.
    """
    a, b, c, d = _display_matrix(frame)
    if b == c == 0:
        pixels = pixels[:, ::-1] if a < 0 else pixels
        return pixels[::-1] if d < 0 else pixels
    if a == d == 0:
        pixels = pixels.transpose(1, 0, 2)
        pixels = pixels[:, ::-1] if c < 0 else pixels
        return pixels[::-1] if b < 0 else pixels
    return pixels


def _display_matrix(frame: av.VideoFrame) -> tuple[int, int, int, int]:
    raw = side_data(frame, "DISPLAYMATRIX")
    if raw is None or len(raw) < MATRIX_BYTES:
        # Still known where side data cannot be read, but for mirrors.
        angle = math.radians(frame.rotation)
        a, b, c, d = math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)
        return _sign(a), _sign(b), _sign(c), _sign(d)
    a, b, _, c, d = (value / 0x10000 for value in struct.unpack_from("<5i", raw))
    return _sign(a), _sign(b), _sign(c), _sign(d)


def _sign(value: float) -> int:
    """-1, 0 or 1; a few thousandths off the axis still count as on it."""
    return 0 if abs(value) < 1 / 200 else (1 if value > 0 else -1)
