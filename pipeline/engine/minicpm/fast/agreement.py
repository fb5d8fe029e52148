"""Where two decoders that are fed the same tokens would have said another one."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pipeline.engine.minicpm.fast.calls import Call, replayed
from pipeline.engine.minicpm.fast.making import Fast

ROOM_BYTES = 4 * 1024**3
"""Left free beside a float32 copy of the language model: its cache, and scores."""


@dataclass(frozen=True, kw_only=True)
class Tie:
    """A read at which the likeliest token is another one. Margins are differences of scores."""

    read: int
    """From 0, in the order of all reads."""
    token: int
    """What it was measured against says so."""
    other: int
    margin: float
    """Between the two highest scores of what it was measured against."""
    gap: float
    """By how much that one prefers its token to the other."""
    other_margin: float
    """Between the two highest scores of the other one."""


@dataclass(frozen=True, kw_only=True)
class Against:
    """One decoder's scores measured against another's."""

    distance: float
    """Root mean square of the differences, as a share of the scores' spread."""
    worst: float
    """The largest single one, likewise."""
    differ: tuple[Tie, ...]


@dataclass(frozen=True, kw_only=True)
class FromExact:
    """Each against the official loop with the same weights in float32."""

    official: Against
    batched: Against
    fast: Against


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The same units and tokens through each decoder."""

    reads: int
    """Scores from which a token was drawn."""
    spread: float
    """Standard deviation of the official scores."""
    fast: Against
    """The fast decoder against the official loop."""
    batched: Against
    """The official loop, each unit's tokens in one feed, against itself."""
    exact: FromExact | None
    """None where the device had no room for the weights in float32."""


def agree(
    fast: Fast, calls: Sequence[Call], *, say: Callable[[str], None] = lambda text: None
) -> Agreement:
    """Both decoders are reset."""
    official = replayed(fast.official, calls)
    batched = replayed(fast.official, calls, is_batched=True)
    say(f"official, singly and in batches: {len(official)} reads of the same tokens")
    ours = replayed(fast.decoder, calls)
    spread = float(official.float().std())
    exact = None
    if (decoder := in_float32(fast.official)) is not None:
        truth = replayed(decoder, calls, is_batched=True)
        say(f"official in float32: {len(truth)} reads of the same tokens")
        exact = FromExact(
            official=_against(official, truth, spread),
            batched=_against(batched, truth, spread),
            fast=_against(ours, truth, spread),
        )
    return Agreement(
        reads=len(official),
        spread=spread,
        fast=_against(ours, official, spread),
        batched=_against(batched, official, spread),
        exact=exact,
    )


def in_float32(official: Any) -> Any:
    """The official decoder over a float32 copy of its language model; None where the device has no
    room for one."""
    llm = official.m
    parameters = list(llm.parameters())
    if parameters[0].is_cuda:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        if free < 4 * sum(map(torch.Tensor.numel, parameters)) + ROOM_BYTES:
            return None
    taken = {
        id(each): nn.Parameter(each.detach().float(), requires_grad=False) for each in parameters
    }
    made = copy.copy(official)
    made.m = copy.deepcopy(llm, taken)
    made.reset()
    return made


def _against(ours: Any, theirs: Any, spread: float) -> Against:
    square, worst, differ = 0.0, 0.0, []
    for nth, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        one, other = our.float(), their.float()
        apart = one - other
        square += float(apart.pow(2).mean())
        worst = max(worst, float(apart.abs().max()))
        token, drawn = int(other.argmax()), int(one.argmax())
        if token != drawn:
            tie = Tie(
                read=nth,
                token=token,
                other=drawn,
                margin=_margin(other),
                gap=float(other[token] - other[drawn]),
                other_margin=_margin(one),
            )
            differ.append(tie)
    return Against(
        distance=math.sqrt(square / len(ours)) / spread,
        worst=worst / spread,
        differ=tuple(differ),
    )


def _margin(scores: Any) -> float:
    first, second = scores.topk(2).values
    return float(first - second)
