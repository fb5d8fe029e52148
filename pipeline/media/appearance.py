"""How the pictures of a stream are meant to be shown: the shape of a pixel, the kind of colour."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

ASPECT_MAX = Fraction(4)
"""Sample aspect ratios beyond 1:4 and 4:1 are faults in the file and are ignored."""

UNTAGGED = 2
"""Of matrix, transfer and primaries (ITU-T H.273)."""

UNKNOWN_RANGE = 0
"""FFmpeg's number (AVColorRange)."""


class Appearance:
    """What container and pictures say together. Make it before the first picture is decoded."""

    def __init__(self, stream: VideoStream) -> None:
        context: Any = stream.codec_context
        self._context = context
        container = _sensible(stream.sample_aspect_ratio)
        is_own = container != _sensible(context.sample_aspect_ratio)
        self._container_aspect = container if is_own else None
        # The decoder forgets what the container says once the pictures say nothing.
        self._matrix = context.colorspace
        self._transfer = context.color_trc
        self._primaries = context.color_primaries
        self._range = context.color_range

    def follow(self, context: Any) -> None:
        """From here on pictures come from this decoder."""
        self._context = context

    @property
    def aspect(self) -> Fraction:
        """Width over height of a stored pixel, as the decoder stands; square where nothing says.

        What the container says for itself holds throughout, as in FFmpeg; where it only repeats
        what the pictures say, theirs is followed, which a broadcast changes in mid-stream. It may
        be ahead by a decoder's delay, a few pictures.
        """
        aspect = self._container_aspect or _sensible(self._context.sample_aspect_ratio)
        return Fraction(1) if aspect is None else aspect

    def complete(self, frame: VideoFrame) -> None:
        """Give a frame that says nothing of its colours what the container says of them."""
        if frame.colorspace == UNTAGGED:
            frame.colorspace = self._matrix
        if frame.color_trc == UNTAGGED:
            frame.color_trc = self._transfer
        if frame.color_primaries == UNTAGGED:
            frame.color_primaries = self._primaries
        if frame.color_range == UNKNOWN_RANGE:
            frame.color_range = self._range


def _sensible(given: Any) -> Fraction | None:
    if not given:
        return None
    aspect = Fraction(given.numerator, given.denominator)
    return aspect if 1 / ASPECT_MAX <= aspect <= ASPECT_MAX else None
