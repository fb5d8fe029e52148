"""Medians and ninety-fifth percentiles of where the time of units went."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnai.trial.course import Step
from pipeline.records import Decision, EngineClocks

CLOCKS = ("prepare", "queue_wait", "prefill", "generate", "ledger", "total")
"""The monotonic clocks of a unit, in the order in which it passes them."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Of one clock over some units, in milliseconds."""

    median_ms: float
    p95_ms: float
    """The smallest value that at least 95 in 100 do not exceed."""
    count: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of a group of units."""

    units: int
    clocks: Mapping[str, Spread | None]
    """None for a clock that the engine does not tell, or that nothing passes: no ledger here."""
    upstream_wall_clock: Mapping[str, Spread]
    """The model code's own `cost_*` figures, by its wall clock; for comparison only."""
    tokens: int
    """Text tokens."""
    tokens_per_s: float | None
    """Over the group's whole time; None without a token."""
    times_realtime: float | None
    """Source time over the group's whole time; None without source time."""


def by_decision(steps: Sequence[Step]) -> dict[str, Figures | None]:
    """All units of the source, those that listened, those that spoke, and the drain's; None for a
    group without units."""
    source = [step for step in steps if step.reply.drain is None]
    groups = {
        "all": source,
        "listening": [step for step in source if step.reply.decision is Decision.LISTEN],
        "speaking": [step for step in source if step.reply.decision is Decision.SPEAK],
        "drain": [step for step in steps if step.reply.drain is not None],
    }
    return {name: _figures(group) if group else None for name, group in groups.items()}


def spread(values: Iterable[float]) -> Spread | None:
    ordered = sorted(values)
    if not ordered:
        return None
    rank = math.ceil(0.95 * len(ordered))
    return Spread(
        median_ms=round(statistics.median(ordered), 3),
        p95_ms=round(ordered[rank - 1], 3),
        count=len(ordered),
    )


def _figures(steps: Sequence[Step]) -> Figures:
    engine = [step.reply.clocks for step in steps if step.reply.clocks is not None]

    def told(read: Callable[[EngineClocks], float]) -> Spread | None:
        return spread(map(read, engine))

    clocks = {
        "prepare": told(lambda clocks: clocks.prepare_ms),
        "queue_wait": spread(step.reply.queue_wait_ms for step in steps),
        "prefill": told(lambda clocks: clocks.prefill_ms),
        "generate": told(lambda clocks: clocks.generate_ms),
        "ledger": None,
        "total": spread(step.total_ms for step in steps),
    }
    names = sorted({name for clocks in engine for name in clocks.upstream_ms})
    costs = {
        name: spread(c.upstream_ms[name] for c in engine if name in c.upstream_ms) for name in names
    }
    total_s = sum(step.total_ms for step in steps) / 1000
    tokens = sum(step.reply.tokens for step in steps)
    return Figures(
        units=len(steps),
        clocks={name: clocks[name] for name in CLOCKS},
        upstream_wall_clock={name: cost for name, cost in costs.items() if cost is not None},
        tokens=tokens,
        tokens_per_s=_rate(tokens, total_s),
        times_realtime=_rate(sum(step.source_ms for step in steps) / 1000, total_s),
    )


def _rate(amount: float, seconds: float) -> float | None:
    return round(amount / seconds, 3) if amount and seconds > 0 else None
