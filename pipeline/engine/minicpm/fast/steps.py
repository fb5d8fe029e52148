"""One forward pass after another: called as written, or repeated from graphs of a few sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.engine.minicpm.fast.attention import InParts, Whole
from pipeline.engine.minicpm.fast.cache import Cache
from pipeline.engine.minicpm.fast.graphs import Pool, Repeated
from pipeline.engine.minicpm.fast.network import Network

TOKENS_MAX = 256
"""Of one pass: a context's batch, and any unit of up to three slices with what is held back."""

WIDTHS = (1, 16, 80, 224, TOKENS_MAX)
"""Tokens of a graph; fewer are padded. A spoken token; a second without a picture (13); one with
its overview (79); one with two slices (211)."""

REACHES = (1_024, 2_048, 4_096, 6_144, 7_168, 8_192, 9_216)
"""Cached tokens that a graph looks back on. Most of an epoch is spent between 6,000 and 8,000."""

PART_TOKENS = {1: 128, 16: 128, 80: 512, 224: 1_024, TOKENS_MAX: 1_024}
"""By width: few queries need more parts to occupy the device. On an H200 a layer's attention over
8,192 tokens took 31, 44 and 138 µs so for the first three."""

FAR_TOKENS, NARROW = 4_096, 16
"""Beyond it, twice as much for as few queries: there are parts enough."""


def part_tokens(width: int, reach: int) -> int:
    is_doubled = reach > FAR_TOKENS and width <= NARROW
    return PART_TOKENS[width] * (2 if is_doubled else 1)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What a forward pass gave; valid until the next one."""

    states: Any
    """[tokens, hidden], as the head takes them."""
    scores: Any
    """[1, vocabulary] of the last token."""
    is_kept: bool
    """Whether the scores' memory is theirs alone."""


class Steps(ABC):
    """Takes tokens in, then passes over them; the cache grows by as many."""

    def __init__(self, network: Network, cache: Cache) -> None:
        self.network, self.cache = network, cache
        self.passes = 0
        like = network.embeddings
        self._taken = torch.zeros(
            (TOKENS_MAX, network.hidden), dtype=like.dtype, device=like.device
        )

    def take(self, embeds: Any, *, at: int) -> None:
        """Copy [tokens, hidden] for the next pass: the caller's memory may change after it."""
        with torch.no_grad():
            self._taken[at : at + len(embeds)] = embeds

    def run(self, tokens: int) -> Pass:
        """Over the first `tokens` that were taken in."""
        with torch.no_grad():
            made = self._run(tokens)
        self.cache.length += tokens
        self.passes += 1
        return made

    def run_drawn(self, token: Any) -> Pass:
        """Over a token, [1], that only the device knows. The cache's length stays."""
        with torch.no_grad():
            torch.index_select(self.network.embeddings, 0, token, out=self._taken[:1])
            made = self._run(1)
        self.passes += 1
        return made

    def blank(self, at: int) -> None:
        """Leave nothing of a pass that was begun there."""
        self.cache.pairs[:, at].zero_()

    def is_ready_for_one(self) -> bool:
        """Whether a pass over one token needs no other place and nothing made for it."""
        return self.cache.length < self.cache.capacity

    def scores(self, states: Any) -> Any:
        """Of states that a pass gave, [tokens, vocabulary]."""
        with torch.no_grad():
            return self.network.scores(states)

    def clear(self) -> None:
        """Forget all tokens."""
        self._taken.zero_()
        self.cache.clear()

    @abstractmethod
    def _run(self, tokens: int) -> Pass: ...


class PlainSteps(Steps):
    """Exactly the tokens that there are: the arithmetic of the official loop, and any device."""

    def _run(self, tokens: int) -> Pass:
        begin = self.cache.length
        self.cache.reserve(begin + tokens)
        positions = torch.arange(begin, begin + tokens, device=self._taken.device)
        attention = Whole(positions, end=begin + tokens, groups=self.network.groups)
        states = self.network.states(self._taken[:tokens], positions, self.cache, attention)
        return Pass(states=states, scores=self.network.scores(states[-1:]), is_kept=True)


class SizedSteps(Steps):
    """Padded to one of a few sizes; where `is_graphed`, repeated from a CUDA graph of that size."""

    def __init__(self, network: Network, cache: Cache, *, is_graphed: bool) -> None:
        super().__init__(network, cache)
        device = self._taken.device
        self._begin = torch.zeros((), dtype=torch.long, device=device)
        self._last = torch.zeros((1,), dtype=torch.long, device=device)
        self._is_set_to = (-1, -1)
        self._scores = torch.zeros((1, network.vocabulary), dtype=self._taken.dtype, device=device)
        self._made: dict[tuple[int, int], Repeated] = {}
        self._generation = cache.generation
        self._pool = Pool(is_graphed=is_graphed)

    def warm(self) -> None:
        """Capture every size that the cache has room for."""
        for size in self.sizes():
            self._repeated(size)

    def is_ready_for_one(self) -> bool:
        size = 1, self._reach(self.cache.length + 1)
        return super().is_ready_for_one() and size in self._made

    def sizes(self) -> Iterator[tuple[int, int]]:
        for reach in REACHES:
            for width in WIDTHS:
                if width <= reach <= self.cache.capacity:
                    yield width, reach

    def _run(self, tokens: int) -> Pass:
        begin = self.cache.length
        width = next(width for width in WIDTHS if width >= tokens)
        self.cache.reserve(begin + width)
        size = width, self._reach(begin + width)
        repeated = self._repeated(size)
        self._set(begin, tokens)
        self._is_set_to = -1, -1  # until it is known that the pass was begun
        states = repeated()
        self._is_set_to = begin + tokens, tokens
        return Pass(states=states[:tokens], scores=self._scores, is_kept=False)

    def _set(self, begin: int, tokens: int) -> None:
        """A pass leaves `_begin` behind its tokens: one after another, nothing need be set."""
        if self._is_set_to[0] != begin:
            self._begin.fill_(begin)
        if self._is_set_to[1] != tokens:
            self._last.fill_(tokens - 1)

    def _reach(self, tokens: int) -> int:
        return next((reach for reach in REACHES if reach >= tokens), self.cache.capacity)

    def _step(self, size: tuple[int, int]) -> Any:
        width, reach = size
        positions = self._begin + torch.arange(width, device=self._taken.device)
        each = part_tokens(width, reach)
        attention = InParts(
            positions,
            parts=reach // each,
            part_tokens=each,
            groups=self.network.groups,
        )
        states = self.network.states(self._taken[:width], positions, self.cache, attention)
        self._scores.copy_(self.network.scores(states.index_select(0, self._last)))
        self._begin.add_(self._last[0] + 1)
        return states

    def _repeated(self, size: tuple[int, int]) -> Repeated:
        if self._generation != self.cache.generation:
            self._made.clear()
            self._generation = self.cache.generation
        if size not in self._made:
            # A capture computes nothing, and the pass before it writes beyond the cache's length.
            self._set(min(self.cache.length, size[1] - size[0]), 1)
            self._is_set_to = -1, -1
            self._made[size] = Repeated(lambda: self._step(size), pool=self._pool)
        return self._made[size]
