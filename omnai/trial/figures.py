"""Medians and ninety-fifth percentiles of where the time of units went."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.records import Decision, EngineClocks

CLOCKS = ("prepare", "queue_wait", "prefill", "generate", "ledger", "total")
"""The monotonic clocks of a unit, in the order in which it passes them."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Where the time of one unit went."""

    decision: Decision
    is_drain: bool
    source_ms: int
    """Source time that it covers; 0 for a unit of the drain."""
    tokens: int
    queue_wait_ms: float
    engine: EngineClocks | None
    """None where the engine does not tell them apart."""
    ledger_ms: float | None
    """None where nothing is written."""
    total_ms: float | None
    """From the hand-over to the engine to the reply, or to the end of the write where there is one;
    None where it is not known: the last write of a run that lost its database."""


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
    """None for a clock that the engine does not tell, or that nothing passes."""
    upstream_wall_clock: Mapping[str, Spread]
    """The model code's own `cost_*` figures, by its wall clock; for comparison only."""
    tokens: int
    """Text tokens."""
    tokens_per_s: float | None
    """Over the group's whole time; None without a token."""
    times_realtime: float | None
    """Source time over the group's whole time; None without source time."""


def by_decision(timings: Iterable[Timing]) -> dict[str, Figures | None]:
    """All units of the source, those that listened, those that spoke, and the drain's; None for a
    group without units."""
    every = list(timings)
    source = [timing for timing in every if not timing.is_drain]
    groups = {
        "all": source,
        "listening": [timing for timing in source if timing.decision is Decision.LISTEN],
        "speaking": [timing for timing in source if timing.decision is Decision.SPEAK],
        "drain": [timing for timing in every if timing.is_drain],
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


def _figures(timings: Sequence[Timing]) -> Figures:
    engine = [timing.engine for timing in timings if timing.engine is not None]

    def told(read: Callable[[EngineClocks], float]) -> Spread | None:
        return spread(map(read, engine))

    clocks = {
        "prepare": told(lambda clocks: clocks.prepare_ms),
        "queue_wait": spread(timing.queue_wait_ms for timing in timings),
        "prefill": told(lambda clocks: clocks.prefill_ms),
        "generate": told(lambda clocks: clocks.generate_ms),
        "ledger": spread(t.ledger_ms for t in timings if t.ledger_ms is not None),
        "total": spread(t.total_ms for t in timings if t.total_ms is not None),
    }
    names = sorted({name for clocks in engine for name in clocks.upstream_ms})
    costs = {
        name: spread(c.upstream_ms[name] for c in engine if name in c.upstream_ms) for name in names
    }
    timed = [timing for timing in timings if timing.total_ms is not None]
    total_s = sum(timing.total_ms or 0.0 for timing in timed) / 1000
    return Figures(
        units=len(timings),
        clocks={name: clocks[name] for name in CLOCKS},
        upstream_wall_clock={name: cost for name, cost in costs.items() if cost is not None},
        tokens=sum(timing.tokens for timing in timings),
        tokens_per_s=_rate(sum(timing.tokens for timing in timed), total_s),
        times_realtime=_rate(sum(timing.source_ms for timing in timed) / 1000, total_s),
    )


def _rate(amount: float, seconds: float) -> float | None:
    return round(amount / seconds, 3) if amount and seconds > 0 else None
