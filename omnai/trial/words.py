"""Clocks and memory of a run by hand, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping

from omnai import display
from omnai.trial.figures import CLOCKS, Figures, Spread
from pipeline.engine.minicpm.memory import PeakMemory

UNTOLD = "–"


def show_figures(groups: Mapping[str, Figures | None]) -> None:
    """One row a clock, with a column for each group of units that has any."""
    shown = {name: group for name, group in groups.items() if group is not None}
    table = display.table("", *(f"{name} ({group.units})" for name, group in shown.items()))
    for clock in CLOCKS:
        table.add_row(clock, *(_spread(group.clocks[clock]) for group in shown.values()))
    names = sorted({name for group in shown.values() for name in group.upstream_wall_clock})
    for name in names:
        cells = (_spread(group.upstream_wall_clock.get(name)) for group in shown.values())
        table.add_row(display.seen(name), *cells)
    table.add_row("× realtime", *(_number(group.times_realtime) for group in shown.values()))
    table.add_row("text tokens / s", *(_number(g.tokens_per_s) for g in shown.values()))
    display.console().print(table)
    display.say("Clocks: median / p95 in milliseconds, monotonic.")
    if all(group.clocks["ledger"] is None for group in shown.values()):
        display.say("No ledger is written here.")
    if names:
        display.say("…_cost_… are the model code's own figures, by its wall clock.")


def show_memory(memory: PeakMemory) -> None:
    gpu = memory.gpu_allocated_bytes
    if gpu is None:
        display.say("GPU memory: no GPU was used")
    else:
        reserved = memory.gpu_reserved_bytes or 0
        display.say(f"GPU memory, peak: {_gib(gpu)} in tensors, {_gib(reserved)} reserved")
    display.say(f"host memory, peak: {_gib(memory.resident_bytes)} resident")


def _spread(spread: Spread | None) -> str:
    return UNTOLD if spread is None else f"{spread.median_ms:,.1f} / {spread.p95_ms:,.1f}"


def _number(value: float | None) -> str:
    return UNTOLD if value is None else f"{value:,.2f}"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**3:.2f} GiB"
