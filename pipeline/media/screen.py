"""What stood on the screen: for how long it was black, or did not change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from pipeline.media.remarks import RemarkBook

LUMA = npt.NDArray[np.uint8]

BLACK_LEVEL = 0.10 * 255
"""Luma up to which a pixel is black (FFmpeg, blackdetect: pixel_black_th)."""

BLACK_SHARE_MIN = 0.98
"""Part of its pixels that makes a picture black (blackdetect: picture_black_ratio_th)."""

BLACK_MS = 2_000
"""Shortest black stretch that is told (blackdetect: black_min_duration); a cut is shorter."""

NOISE_MAX = 0.001 * 255
"""Mean difference of luma up to which two pictures are the same (FFmpeg, freezedetect: noise).
A camera's own noise changes more."""

FROZEN_MS = 10_000
"""Shortest still stretch that is told. freezedetect's 2 s is every pause of a slide show."""

STANDS_MS_MAX = 31_000
"""A picture still on screen is seen again after 30 s (design.md, rule 6); further apart, nobody
knows what stood between two."""

EDGE_PX = 448
"""Longest edge that is measured; larger pictures are reduced, which also takes noise away."""


@dataclass
class _Stretch:
    """Pictures in a row of which the same can be said, told once they end if they stood long."""

    code: str
    message: str
    told_from_ms: int
    start_ms: int | None = None
    """When the first of them was seen; None while there is none."""
    seen_ms: int = 0
    """When the last of them was seen."""

    def goes_on(self, at_ms: int, *, is_same: bool, stood: bool, remarks: RemarkBook) -> bool:
        """Take in the picture at `at_ms`, which is of the stretch or ends it."""
        if self.start_ms is None:
            return False
        is_seamless = stood and at_ms - self.seen_ms <= STANDS_MS_MAX
        if is_seamless:
            self.seen_ms = max(at_ms, self.seen_ms)
        if is_same and is_seamless:
            return True
        if self.seen_ms - self.start_ms >= self.told_from_ms:
            remarks.note(self.code, self.message, start_ms=self.start_ms, end_ms=self.seen_ms)
        self.start_ms = None
        return False

    def begin(self, at_ms: int) -> None:
        self.start_ms = self.seen_ms = at_ms


class Screen:
    """Follows the pictures that are fed, about one a second, in order of time.

    A stretch begins with the first picture seen of it and ends with the first that is otherwise;
    what changed did so within the second before.
    """

    def __init__(self, remarks: RemarkBook) -> None:
        self._remarks = remarks
        self._black = _Stretch("picture_black", "the picture is black", BLACK_MS)
        self._still = _Stretch(
            "picture_frozen",
            f"the picture does not change for {FROZEN_MS // 1000} s or longer",
            FROZEN_MS,
        )
        self._first_of_still: LUMA = np.zeros((0, 0), np.uint8)

    def see(self, pixels: npt.NDArray[np.uint8], *, at_ms: int, stood: bool) -> None:
        """Take in a picture, [height, width, 3]; `stood` where nothing is missing before it."""
        luma = _measured(pixels)
        is_black = np.count_nonzero(luma <= BLACK_LEVEL) >= BLACK_SHARE_MIN * luma.size
        if not self._follow(self._black, at_ms, is_same=is_black, stood=stood) and is_black:
            self._black.begin(at_ms)
        # Of a black picture it is told that it is black.
        is_same = not is_black and _is_same(self._first_of_still, luma)
        if not self._follow(self._still, at_ms, is_same=is_same, stood=stood):
            self._first_of_still = luma
            self._still.begin(at_ms)

    def end(self, at_ms: int, *, stood: bool) -> None:
        """The last picture was presented at `at_ms`, and nothing follows."""
        for stretch in (self._black, self._still):
            self._follow(stretch, at_ms, is_same=False, stood=stood)

    def _follow(self, stretch: _Stretch, at_ms: int, *, is_same: bool, stood: bool) -> bool:
        return stretch.goes_on(at_ms, is_same=is_same, stood=stood, remarks=self._remarks)


def _measured(pixels: npt.NDArray[np.uint8]) -> LUMA:
    image = Image.fromarray(pixels).convert("L")
    factor = max(image.size) // EDGE_PX
    return np.asarray(image.reduce(factor) if factor > 1 else image)


def _is_same(first: LUMA, luma: LUMA) -> bool:
    if first.shape != luma.shape:
        return False
    # Without a sign a byte wraps round; the larger less the smaller does not.
    apart = np.maximum(first, luma) - np.minimum(first, luma)
    return float(apart.mean()) <= NOISE_MAX
