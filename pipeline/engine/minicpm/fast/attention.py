"""Attention over a static cache: as one piece, or in parts that a graph can repeat."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.nn import functional

MASKED = -30_000.0
"""Finite, so that a part without any admitted token gives a weight of zero and no NaN; far below
every score."""


class Attention(Protocol):
    """Of one forward pass; made for its positions, then called for every layer."""

    def __call__(self, queries: Any, pairs: Any) -> Any:
        """[tokens, heads, size] over one layer's [capacity, 2, heads, size]."""
        ...


class Whole:
    """Over exactly the tokens that there are. The length is known when it is made."""

    def __init__(self, positions: Any, *, end: int, groups: int) -> None:
        self._end, self._groups = end, groups
        tokens = len(positions)
        self._mask = None
        if tokens > 1:
            admitted = torch.arange(end, device=positions.device) <= positions[:, None]
            self._mask = admitted.repeat(groups, 1)

    def __call__(self, queries: Any, pairs: Any) -> Any:
        held = pairs[: self._end].permute(1, 2, 0, 3)
        grouped = _grouped(queries, self._groups)
        seen = functional.scaled_dot_product_attention(
            grouped[None], held[0][None], held[1][None], attn_mask=self._mask
        )
        return _flat(seen[0], self._groups)


class InParts:
    """Over the first `parts` parts of the cache, each by itself, then weighed: the length is read
    from `positions` on the device, and short queries still occupy it."""

    def __init__(self, positions: Any, *, parts: int, part_tokens: int, groups: int) -> None:
        self._parts, self._part_tokens, self._groups = parts, part_tokens, groups
        places = torch.arange(parts * part_tokens, device=positions.device)
        admitted = places.view(parts, 1, 1, part_tokens) <= positions.repeat(groups)[:, None]
        self._admitted = admitted
        self._mask: Any = None

    def __call__(self, queries: Any, pairs: Any) -> Any:
        if self._mask is None:
            zero = torch.zeros((), dtype=queries.dtype, device=queries.device)
            self._mask = zero.masked_fill(~self._admitted, MASKED)
        heads = pairs.shape[2]
        held = pairs[: self._parts * self._part_tokens]
        held = held.view(self._parts, self._part_tokens, 2, heads, -1).permute(2, 0, 3, 1, 4)
        grouped = _grouped(queries, self._groups)
        seen, sums = _seen_and_sums(
            grouped.expand(self._parts, -1, -1, -1), held[0], held[1], self._mask
        )
        # Rows first: the kernel leaves its heads innermost, and nothing need be copied.
        weighed = sums[:, :, : grouped.shape[1]].permute(2, 1, 0).contiguous()
        shares = torch.softmax(weighed, dim=-1).to(seen.dtype)
        whole = shares[:, :, None] @ seen.permute(2, 1, 0, 3)
        return _flat(whole[:, :, 0].transpose(0, 1), self._groups)


def _grouped(queries: Any, groups: int) -> Any:
    """[key heads, groups × tokens, size]: the queries that share keys are one longer query."""
    tokens, heads, size = queries.shape
    return (
        queries.view(tokens, heads // groups, groups, size)
        .permute(1, 2, 0, 3)
        .reshape(heads // groups, groups * tokens, size)
    )


def _flat(seen: Any, groups: int) -> Any:
    """Back to [tokens, heads × size]."""
    heads, rows, size = seen.shape
    return (
        seen.reshape(heads, groups, rows // groups, size)
        .permute(2, 0, 1, 3)
        .reshape(rows // groups, heads * groups * size)
    )


def _seen_and_sums(queries: Any, keys: Any, values: Any, mask: Any) -> tuple[Any, Any]:
    """Attention, and the logarithm of each row's sum in float32."""
    if queries.is_cuda:
        bias = mask.expand(-1, queries.shape[1], -1, -1)
        seen, sums, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            queries, keys, values, bias, True
        )
        return seen, sums
    scores = (queries @ keys.transpose(-1, -2)).float() * queries.shape[-1] ** -0.5 + mask
    sums = torch.logsumexp(scores, dim=-1)
    return (scores - sums[..., None]).exp().to(values.dtype) @ values, sums
