"""How the double cuts sound and pictures, in the sizes that were measured."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from PIL import Image

from tests.native.vocabulary import Vocabulary

FRAME_TOKENS = 64
AUDIO_TOKENS = 10
OVERVIEW_EDGE_PX = 448

Numbers = np.ndarray[Any, np.dtype[np.float32]]


class Processor:
    """How many samples the next unit takes, and how a picture is cut."""

    FIRST_SAMPLES = 16_480

    def __init__(self, tokenizer: Vocabulary) -> None:
        self.tokenizer = tokenizer
        self.is_first = True

    def get_streaming_chunk_size(self) -> int:
        return self.FIRST_SAMPLES if self.is_first else 16_000

    def pieces(self, image: Image.Image, max_slice_nums: int) -> list[Image.Image]:
        """The overview, then slices where the area asks for more than one."""
        area = image.width * image.height / OVERVIEW_EDGE_PX**2
        slices = min(math.ceil(area), max_slice_nums)
        if slices < 2:
            return [image]
        edges = [round(at * image.width / slices) for at in range(slices + 1)]
        return [image] + [
            image.crop((left, 0, right, image.height)) for left, right in itertools.pairwise(edges)
        ]
