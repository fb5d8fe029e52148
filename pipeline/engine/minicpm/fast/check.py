"""Whether the fast decoder says the same as the official one, on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pipeline.engine.minicpm.fast.making import Fast
from pipeline.engine.minicpm.fast.refusal import NotFast

EXACT_MAX = 1e-3
"""Largest difference of scores in float32, as a share of their spread."""

ROUNDED_MAX = 2.0
"""In a shorter format: how many times further from the official loop the fast one may be than that
loop is from itself, fed one token by one and in batches."""

ROUNDED_FLOOR = 0.01
"""As a share of the scores' spread: nearer than this is near enough whatever the loop does."""

CONTEXT, FRAME, AUDIO = 48, 66, 10
UNITS = 3
HIGH, LOW = 200, 120
"""A window that the third unit falls out of."""

DRAWS = 12


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Root mean squares of scores' differences, as shares of their spread."""

    fast: float
    """From the official loop, fed as it is fed."""
    official: float
    """Of the official loop from itself, each unit's tokens in one feed."""
    worst: float
    """The largest single difference of the fast one."""

    def is_near(self, *, is_exact: bool) -> bool:
        if is_exact:
            return self.worst <= EXACT_MAX
        return self.fast <= max(ROUNDED_FLOOR, ROUNDED_MAX * self.official)


def check(fast: Fast, *, is_exact: bool) -> Distances:
    """Feed both the same few units, one of which leaves the window, and draw from the same scores.

    Takes a few seconds. Raises NotFast where they differ by more than they may; both are reset.
    """
    before = _random_state(fast)
    try:
        distances = measure(fast)
        if not distances.is_near(is_exact=is_exact):
            raise NotFast(
                f"its scores are {distances.fast:.4f} of their spread from the official ones, which"
                f" are {distances.official:.4f} from their own in batches"
            )
        _check_draws(fast)
        return distances
    finally:
        _set_random_state(fast, before)
        fast.official.reset()
        fast.decoder.reset()


def measure(fast: Fast) -> Distances:
    singly = _scores(fast, fast.official, is_batched=False)
    batched = _scores(fast, fast.official, is_batched=True)
    ours = _scores(fast, fast.decoder, is_batched=False)
    spread = float(singly.std())
    return Distances(
        fast=_distance(ours, singly) / spread,
        official=_distance(batched, singly) / spread,
        worst=float((ours - singly).abs().max()) / spread,
    )


def _distance(one: Any, other: Any) -> float:
    return float((one - other).pow(2).mean().sqrt())


def _scores(fast: Fast, decoder: Any, *, is_batched: bool) -> Any:
    """What is read in some units, [reads, vocabulary] in float32."""
    embeddings = fast.steps.network.embeddings
    chooser = torch.Generator().manual_seed(0)

    def some(tokens: int) -> Any:
        chosen = torch.randint(len(embeddings), (tokens,), generator=chooser)
        return embeddings[chosen.to(embeddings.device)]

    config = decoder._window_config
    marks = config.basic_window_high_tokens, config.basic_window_low_tokens
    is_enabled = decoder._window_enabled
    config.basic_window_high_tokens, config.basic_window_low_tokens = HIGH, LOW
    decoder.set_window_enabled(True)
    read = []
    try:
        decoder.reset()
        decoder.feed(some(CONTEXT))
        decoder.register_system_prompt()
        for _ in range(UNITS):
            decoder.register_unit_start()
            parts = [some(1), some(FRAME), some(AUDIO)]
            if is_batched:
                parts = [torch.cat(parts)]
            for part in parts[:-1]:
                decoder.feed(part)
            read.append(_read(decoder.feed(parts[-1], return_logits=True)))
            read.append(_read(decoder.feed(some(1), return_logits=True)))
            decoder.feed(some(1), return_logits=True)
            decoder.feed(some(1))
            decoder.register_unit_end(input_type="omni", is_listen=False)
            decoder.enforce_window()
    finally:
        decoder.reset()
        config.basic_window_high_tokens, config.basic_window_low_tokens = marks
        decoder.set_window_enabled(is_enabled)
    return torch.stack(read)


def _read(fed: Any) -> Any:
    scores = fed[0]
    return scores[0].float().clone()


def _check_draws(fast: Fast) -> None:
    """The sampler alone: it stays out, not the whole decoder, where it draws otherwise."""
    decoder, official = fast.decoder, fast.official
    if decoder._sampler is None:
        return
    like = fast.steps.network.embeddings
    chooser = torch.Generator().manual_seed(1)
    for nth in range(DRAWS):
        scores = torch.randn((1, fast.steps.network.vocabulary), generator=chooser) * 3
        scores = scores.to(device=like.device, dtype=like.dtype)
        mode = "greedy" if nth % 4 == 3 else "sampling"
        drawn = []
        for each in (official, decoder):
            torch.manual_seed(nth)
            drawn.append(int(each.decode(logits=scores.clone(), mode=mode, top_k=100)))
        if drawn[0] != drawn[1] or official.generated_tokens != decoder.generated_tokens:
            decoder._sampler = None
            return


def _random_state(fast: Fast) -> tuple[Any, Any]:
    is_cuda = fast.steps.network.embeddings.is_cuda
    return torch.get_rng_state(), torch.cuda.get_rng_state() if is_cuda else None


def _set_random_state(fast: Fast, state: tuple[Any, Any]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
