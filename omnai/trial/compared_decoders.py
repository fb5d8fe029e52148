"""Both decoders over the same seconds, as figures and as a terminal shows them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from omnai import display
from omnai.trial.figures import Spread, spread
from omnai.trial.same_tokens import SameTokens, same_tokens, show_same_tokens
from omnai.trial.words import UNTOLD
from pipeline.engine.minicpm.fast.choice import FAST, OFFICIAL
from pipeline.engine.minicpm.fast.comparison import Case, Comparison

DECISIONS = {False: "listening", True: "speaking"}
CACHES = {False: "short", True: "full"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Seconds of one kind under both decoders."""

    decision: str
    cache: str
    cached_tokens: int
    """After the last of them, under the fast one."""
    official: Spread
    fast: Spread
    official_forwards: float
    """A unit."""
    fast_forwards: float
    times: float
    """Medians: how many times as fast."""
    fast_times_realtime: float
    fast_mean_ms: float
    """The seconds among them in which the window falls."""


@dataclass(frozen=True, kw_only=True)
class ComparedDecoders:
    """What a run of both showed, in figures."""

    device: str
    rows: tuple[Row, ...]
    floor_ms: float
    """Of a forward pass: the bytes of the weights over the measured speed of a copy."""
    weight_bytes: int
    copy_bytes_per_s: float
    spoken_token_ms: Mapping[str, float]
    """Of the fast decoder by cache: what a pass more costs a second."""
    spoken_token_floors: Mapping[str, float]
    """The same in floors."""
    peak_bytes: Mapping[str, int | None]
    making_s: float
    distance: float
    """Of the fast decoder's scores from the official ones, as a share of their spread."""
    distance_official: float
    """Of the official ones from themselves in batches."""
    same_tokens: SameTokens


def figures(comparison: Comparison) -> ComparedDecoders:
    cases = {(case.decoder, case.is_speaking, case.is_full): case for case in comparison.cases}
    tokens = {
        name: _spoken_token_ms(cases[FAST, False, is_full], cases[FAST, True, is_full])
        for is_full, name in CACHES.items()
    }
    floor_ms = comparison.floor_ms
    return ComparedDecoders(
        device=comparison.device,
        rows=tuple(
            _row(cases[OFFICIAL, is_speaking, is_full], cases[FAST, is_speaking, is_full])
            for is_speaking in DECISIONS
            for is_full in CACHES
        ),
        floor_ms=round(floor_ms, 3),
        weight_bytes=comparison.weight_bytes,
        copy_bytes_per_s=comparison.copy_bytes_per_s,
        spoken_token_ms={name: round(value, 3) for name, value in tokens.items()},
        spoken_token_floors={name: round(value / floor_ms, 2) for name, value in tokens.items()},
        peak_bytes=comparison.peak_bytes,
        making_s=round(comparison.making_s, 1),
        distance=comparison.distances.fast,
        distance_official=comparison.distances.official,
        same_tokens=same_tokens(comparison.agreement),
    )


def show_decoders(compared: ComparedDecoders) -> None:
    """One row a kind of second, then what bounds it."""
    table = display.table(
        "",
        "tokens cached",
        "official ms",
        "fast ms",
        "× official",
        "× realtime",
        "forwards a unit",
    )
    for row in compared.rows:
        table.add_row(
            f"{row.decision}, {row.cache} cache",
            f"{row.cached_tokens:,}",
            _cell(row.official),
            _cell(row.fast),
            f"{row.times:,.1f}",
            f"{row.fast_times_realtime:,.1f}",
            f"{row.official_forwards:,.2f} / {row.fast_forwards:,.2f}",
        )
    display.console().print(table)
    display.say("Clocks: median / p95 in milliseconds, from the encoded picture to the answer.")
    display.say(
        f"read floor: {compared.floor_ms:,.2f} ms a forward pass"
        f" ({compared.weight_bytes / 1e9:,.2f} GB at"
        f" {compared.copy_bytes_per_s / 1e12:,.2f} TB/s, measured)"
    )
    for name, token_ms in compared.spoken_token_ms.items():
        floors = compared.spoken_token_floors[name]
        display.say(f"a spoken token, {name} cache: {token_ms:,.2f} ms, {floors:,.2f} floors")
    peaks = ", ".join(f"{name} {_gib(size)}" for name, size in compared.peak_bytes.items())
    display.say(f"GPU memory in tensors, peak: {peaks}")
    display.say(
        f"made and checked in {compared.making_s:,.1f} s: scores {compared.distance:.5f} of their"
        f" spread from the official ones, which are {compared.distance_official:.5f} from their own"
        " in batches"
    )
    show_same_tokens(compared.same_tokens)


def _row(official: Case, fast: Case) -> Row:
    theirs, ours = spread(official.unit_ms), spread(fast.unit_ms)
    assert theirs is not None
    assert ours is not None
    return Row(
        decision=DECISIONS[fast.is_speaking],
        cache=CACHES[fast.is_full],
        cached_tokens=fast.cached_tokens,
        official=theirs,
        fast=ours,
        official_forwards=round(official.forwards / theirs.count, 2),
        fast_forwards=round(fast.forwards / ours.count, 2),
        times=round(theirs.median_ms / ours.median_ms, 2),
        fast_times_realtime=round(1000 / ours.median_ms, 2),
        fast_mean_ms=round(statistics.mean(fast.unit_ms), 3),
    )


def _spoken_token_ms(listening: Case, speaking: Case) -> float:
    took = statistics.median(speaking.unit_ms) - statistics.median(listening.unit_ms)
    passes = speaking.forwards / len(speaking.unit_ms) - listening.forwards / len(listening.unit_ms)
    return took / passes


def _cell(times: Spread) -> str:
    return f"{times.median_ms:,.1f} / {times.p95_ms:,.1f}"


def _gib(size_bytes: int | None) -> str:
    return UNTOLD if size_bytes is None else f"{size_bytes / 1024**3:.2f} GiB"
