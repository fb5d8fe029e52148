"""Keys and values of every layer in one place that never moves."""

from __future__ import annotations

from typing import Any

import torch

STEP_TOKENS = 1_024
"""Capacity is a multiple of it; every part that attention is split into divides it."""


class Cache:
    """Tokens 0…length of [layers, capacity, keys and values, heads, size].

    What lies beyond `length` is finite and of no meaning: attention masks it, and zero times
    anything finite is zero.
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        size: int,
        capacity: int,
        theta: float,
        like: Any,
    ) -> None:
        self._shape = (layers, heads, size)
        self._like = like
        self._speeds = theta ** -(
            torch.arange(0, size, 2, dtype=torch.float32, device=like.device) / size
        )
        self.length = 0
        self.generation = 0
        """Raised when the place moved: who captured it must capture anew."""
        self.pairs = self._made(_rounded(capacity))

    @property
    def capacity(self) -> int:
        return int(self.pairs.shape[1])

    def clear(self) -> None:
        """Forget everything, the tokens beyond the length too: one of them may be no number."""
        self.pairs.zero_()
        self.length = 0

    def reserve(self, tokens: int) -> None:
        """Make room for so many tokens in all."""
        if tokens <= self.capacity:
            return
        grown = self._made(_rounded(tokens))
        grown[:, : self.length] = self.pairs[:, : self.length]
        self.pairs = grown
        self.generation += 1

    def drop(self, first: int, tokens: int) -> None:
        """Take `tokens` out from `first` on; later ones move there, their keys turned to fit.

        One rotation by the whole way, in float32: rotations add up.
        """
        begin, end = first + tokens, self.length
        angle = (-tokens * self._speeds).repeat(2)
        cosines, sines = angle.cos(), angle.sin()
        for pairs in self.pairs:
            later = pairs[begin:end].clone()
            keys = later[:, 0].float()
            half = keys.shape[-1] // 2
            turned = torch.cat((-keys[..., half:], keys[..., :half]), dim=-1)
            later[:, 0] = keys * cosines + turned * sines
            pairs[first : first + len(later)] = later
        self.length -= tokens

    def layers(self) -> list[tuple[Any, Any]]:
        """Keys and values of each layer, [1, heads, length, size], in the same memory."""
        held = self.pairs[:, : self.length].permute(0, 2, 3, 1, 4)
        return [(pair[0][None], pair[1][None]) for pair in held]

    def _made(self, capacity: int) -> Any:
        layers, heads, size = self._shape
        like = self._like
        return torch.zeros((layers, capacity, 2, heads, size), dtype=like.dtype, device=like.device)


def _rounded(tokens: int) -> int:
    return -(-tokens // STEP_TOKENS) * STEP_TOKENS
