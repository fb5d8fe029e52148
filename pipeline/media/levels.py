"""How loud two channels are, and how alike, in short blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.media.mixdown import FLOAT

BLOCKS_PER_S = 10
"""Blocks of 100 ms: a syllable is longer, and a wave of speech much shorter."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Mean squares over one block of two channels."""

    size: int
    """Samples; the last block of a piece may be short."""
    left: float
    right: float
    middle: float
    """Of the half sum: what a mono mix has."""
    side: float
    """Of the half difference: what a mono mix loses."""


def levels(channels: FLOAT, rate_hz: int) -> list[Level]:
    """Of every block of two channels, shape (2, samples)."""
    left, right = np.ascontiguousarray(channels)
    block = max(rate_hz // BLOCKS_PER_S, 1)
    return [
        _level(left[at : at + block], right[at : at + block]) for at in range(0, left.size, block)
    ]


def _level(left: FLOAT, right: FLOAT) -> Level:
    size = left.size
    squares = float(np.dot(left, left)) / size, float(np.dot(right, right)) / size
    product = 2 * float(np.dot(left, right)) / size
    return Level(
        size=size,
        left=squares[0],
        right=squares[1],
        middle=(sum(squares) + product) / 4,
        side=(sum(squares) - product) / 4,
    )
