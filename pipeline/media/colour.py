"""The colours of a decoded picture as those of BT.709, whatever the file calls them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from pipeline.media.appearance import UNTAGGED
from pipeline.media.sidedata import side_data
from pipeline.media.tone import BT709, BT2020, CHROMATICITIES, HLG, PQ, hdr_to_sdr, wide_to_bt709

PIXELS = npt.NDArray[np.uint8]
CODES = npt.NDArray[np.uint16]

HD_LINES = 720
"""Untagged pictures of this height and more are BT.709, as every player assumes."""

MATRIX_RGB, MATRIX_BT709, MATRIX_BT601, MATRIX_BT2020 = 0, 1, 6, 9
"""Matrix coefficients (ITU-T H.273)."""

MATRICES = frozenset({1, 4, 5, 6, 7, 9})
"""Matrices that the converter knows; with any other it refuses the picture."""

MATRIX_BT2020_CONSTANT = 10
"""BT.2020 with constant luminance: close to its common form, which nearly all files mean."""


SWAPPED_FORMATS = frozenset({"rgb555be", "rgb565be", "bgr555be", "bgr565be"})
"""Uncompressed QuickTime of 16 bits a pixel comes in the first."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A picture's colours for a BT.709 screen."""

    pixels: PIXELS
    """[height, width, 3], what is transparent on white."""
    is_tone_mapped: bool
    """Whether it was HDR."""
    is_matrix_known: bool
    """Whether the file's colours are of a kind that can be converted exactly."""


@dataclass(frozen=True, kw_only=True)
class _Tags:
    """What the values of a picture mean (ITU-T H.273)."""

    matrix: int
    transfer: int
    primaries: int
    is_matrix_known: bool

    @property
    def is_hdr(self) -> bool:
        return self.transfer in (PQ, HLG)

    @property
    def is_deep(self) -> bool:
        """Whether its light has to be computed, which takes more than eight bits."""
        return self.is_hdr or self.primaries != BT709


def shown(frame: av.VideoFrame, *, width: int, height: int) -> Shown:
    """The picture at this size. Raises av.FFmpegError where it cannot be converted."""
    tags = _read_tags(frame)
    values = _rgb(frame, tags, width, height)
    pixels = _on_screen(frame, tags, values[..., :3])
    if values.shape[-1] == 4:
        pixels = _on_white(pixels, values[..., 3:])
    return Shown(pixels=pixels, is_tone_mapped=tags.is_hdr, is_matrix_known=tags.is_matrix_known)


def _on_screen(frame: av.VideoFrame, tags: _Tags, values: PIXELS | CODES) -> PIXELS:
    if not tags.is_deep:
        return values.astype(np.uint8, copy=False)
    codes = values.astype(np.uint16, copy=False)
    if not tags.is_hdr:
        return wide_to_bt709(codes, primaries=tags.primaries)
    return hdr_to_sdr(
        codes,
        transfer=tags.transfer,
        primaries=tags.primaries,
        peak_nits=_brightest_nits(frame),
    )


def _read_tags(frame: av.VideoFrame) -> _Tags:
    transfer, primaries, matrix = frame.color_trc, frame.color_primaries, frame.colorspace
    is_hdr = transfer in (PQ, HLG)
    if primaries not in CHROMATICITIES:
        # BT.601's differ from BT.709's by less than anyone sees.
        primaries = BT2020 if is_hdr else BT709
    is_known = matrix in MATRICES or matrix in (MATRIX_RGB, UNTAGGED, MATRIX_BT2020_CONSTANT)
    if matrix == MATRIX_BT2020_CONSTANT:
        matrix = MATRIX_BT2020
    elif matrix not in MATRICES:
        if is_hdr or primaries == BT2020:
            matrix = MATRIX_BT2020
        else:
            matrix = MATRIX_BT709 if frame.height >= HD_LINES else MATRIX_BT601
    return _Tags(
        matrix=matrix,
        transfer=transfer,
        primaries=primaries,
        is_matrix_known=is_known or frame.format.is_rgb,
    )


def _rgb(frame: av.VideoFrame, tags: _Tags, width: int, height: int) -> PIXELS | CODES:
    """Values of 8 bit, or of 16 where light is computed from them, with alpha where it has some."""
    has_alpha = frame.format.name == "pal8" or any(c.is_alpha for c in frame.format.components)
    name = (
        ("rgba64le" if has_alpha else "rgb48le")
        if tags.is_deep
        else ("rgba" if has_alpha else "rgb24")
    )
    frame = _in_known_order(frame)
    kept = frame.colorspace, frame.color_trc, frame.color_primaries
    # The converter refuses tags that it does not know, and is to leave light alone.
    frame.colorspace, frame.color_trc, frame.color_primaries = tags.matrix, UNTAGGED, UNTAGGED
    try:
        made = frame.reformat(
            width=width,
            height=height,
            format=name,
            interpolation="AREA",
            threads=1,  # its own pool for every picture would exhaust the address space
        )
    finally:
        frame.colorspace, frame.color_trc, frame.color_primaries = kept
    values: Any = made.to_ndarray()
    return values  # type: ignore[no-any-return] # of the asked format


def _in_known_order(frame: av.VideoFrame) -> av.VideoFrame:
    """FFmpeg 8.1 converts these formats with the two bytes of a pixel the wrong way round."""
    name = frame.format.name
    if name not in SWAPPED_FORMATS:
        return frame
    made = av.VideoFrame(frame.width, frame.height, name[:-2] + "le")
    made.colorspace, made.color_range = frame.colorspace, frame.color_range
    _pixels_of_two_bytes(made)[...] = _pixels_of_two_bytes(frame).byteswap()
    return made


def _pixels_of_two_bytes(frame: av.VideoFrame) -> CODES:
    plane: Any = frame.planes[0]
    rows = np.frombuffer(plane, np.uint16).reshape(frame.height, -1)[:, : frame.width]
    return rows[::-1] if plane.line_size < 0 else rows


def _on_white(pixels: PIXELS, alpha: PIXELS | CODES) -> PIXELS:
    share = alpha.astype(np.float32) / (255 if alpha.dtype == np.uint8 else 65_535)
    mixed = 255 - (255 - pixels.astype(np.float32)) * share
    return np.asarray(np.round(mixed), np.uint8)


def _brightest_nits(frame: av.VideoFrame) -> float:
    """What the file says its brightest light is; 0 where it says nothing.

    The brightest pixel of the content (CTA-861.3) before the screen it was made on (ST 2086), as
    FFmpeg lays them out.
    """
    content = side_data(frame, "CONTENT_LIGHT_LEVEL")
    if content is not None and (level := struct.unpack_from("<I", content)[0]):
        return float(level)
    screen = side_data(frame, "MASTERING_DISPLAY_METADATA")
    if screen is not None:
        over, under, _, is_given = struct.unpack_from("<4i", screen, 72)
        if is_given and over > 0 and under > 0:
            return float(over / under)
    return 0.0
