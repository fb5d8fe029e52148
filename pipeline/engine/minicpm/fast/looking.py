"""Looks at the picture that comes next while the language model is at work."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from pipeline.engine.minicpm.fast.pixels import Pixels
from pipeline.engine.minicpm.fast.seeing import Seeing


class Looking:
    """On a stream of its own: the language model waits for memory, the vision encoder computes."""

    def __init__(self, pixels: Pixels, seeing: Seeing | None) -> None:
        self._pixels, self._seeing = pixels, seeing
        self._stream = None if seeing is None else torch.cuda.Stream()

    def __call__(self, images: list[Any], max_slice_nums: int) -> None:
        """From one thread beside the engine's."""
        aside = nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        with aside, torch.no_grad():
            made = self._pixels.make_ahead(images, max_slice_nums)
            if made is not None and self._seeing is not None:
                self._seeing.see_ahead(made)
