"""A decoded picture as an upright RGB JPEG at its display shape."""

from __future__ import annotations

import hashlib
import io
import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from pipeline.records import FRAME_BYTES_MAX, Frame

if TYPE_CHECKING:
    import av
    from av.video.stream import VideoStream

PIXELS = npt.NDArray[np.uint8]

JPEG_QUALITIES = (90, 80, 65, 45, 25)
"""Tried in turn until the picture fits FRAME_BYTES_MAX; slides stay sharp at the first."""

PIXELS_MAX = 1920 * 1080
"""Most pixels of a frame, whatever its edges (docs: model interface, "Video transport")."""

ASPECT_MAX = Fraction(4)
"""Sample aspect ratios beyond 1:4 and 4:1 are faults in the file and are ignored."""

HD_LINES = 720
"""Untagged pictures of this height and more are BT.709, as every player assumes."""

UNTAGGED = 2
ITU709 = 1
"""FFmpeg's numbers (AVColorSpace, SWS_CS_ITU709)."""


def encode_frame(
    frame: av.VideoFrame, *, aspect: Fraction, source_ms: int, longest_edge_px: int
) -> Frame:
    """The frame as it is shown, at most `longest_edge_px` long, never enlarged.

    `aspect` is the width of a stored pixel over its height.
    """
    image = Image.fromarray(_upright(frame, aspect, longest_edge_px))
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


def _upright(frame: av.VideoFrame, aspect: Fraction, longest_edge_px: int) -> PIXELS:
    width, height = _target_size(frame, aspect, longest_edge_px)
    colour: dict[str, Any] = {}
    if frame.colorspace == UNTAGGED and frame.height >= HD_LINES:
        colour = {"src_colorspace": ITU709, "dst_colorspace": ITU709}
    has_alpha = any(part.is_alpha for part in frame.format.components)
    made = frame.reformat(
        width=width,
        height=height,
        format="rgba" if has_alpha else "rgb24",
        interpolation="AREA",
        threads=1,  # its own pool for every picture would exhaust the address space
        **colour,
    )
    pixels = made.to_ndarray().astype(np.uint8, copy=False)
    if has_alpha:
        pixels = _on_white(pixels)
    return np.ascontiguousarray(_turned(pixels, frame))


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


def pixel_aspect(stream: VideoStream) -> Fraction:
    """Width over height of a stored pixel; square where the file says nothing sensible."""
    given = stream.sample_aspect_ratio
    if not given:
        return Fraction(1)
    aspect = Fraction(given.numerator, given.denominator)
    return aspect if 1 / ASPECT_MAX <= aspect <= ASPECT_MAX else Fraction(1)


def _on_white(rgba: PIXELS) -> PIXELS:
    alpha = rgba[..., 3:].astype(np.uint16)
    mixed = (rgba[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255
    return mixed.astype(np.uint8)


def _turned(pixels: PIXELS, frame: av.VideoFrame) -> PIXELS:
    """Apply the display matrix where it is a flip or a multiple of 90°; other angles stay.

    The matrix maps stored (x, y) to shown (x·a + y·c, x·b + y·d) with y downward (ISO/IEC 14496-12,
    8.3.2); `frame.rotation` reads a mirror as a half turn.
    """
    matrix = _display_matrix(frame)
    if matrix is None:
        return pixels
    a, b, c, d = matrix
    if b == c == 0:
        pixels = pixels[:, ::-1] if a < 0 else pixels
        return pixels[::-1] if d < 0 else pixels
    if a == d == 0:
        pixels = pixels.transpose(1, 0, 2)
        pixels = pixels[:, ::-1] if c < 0 else pixels
        return pixels[::-1] if b < 0 else pixels
    return pixels


def _display_matrix(frame: av.VideoFrame) -> tuple[int, int, int, int] | None:
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return None
    raw = memoryview(data).tobytes()  # type: ignore[arg-type] # a buffer, says PyAV's documentation
    if len(raw) < 36:
        return None
    a, b, _, c, d, *_ = struct.unpack("<9i", raw[:36])
    return _sign(a), _sign(b), _sign(c), _sign(d)


def _sign(value: int) -> int:
    """-1, 0 or 1 for 16.16 fixed point; a few thousandths off the axis still count as on it."""
    return 0 if abs(value) < 0x10000 // 200 else (1 if value > 0 else -1)
