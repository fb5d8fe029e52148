"""A comparison of decoding speeds, as a terminal shows it."""

from __future__ import annotations

import shlex

from omnai import display
from omnai.trial.decoding import Comparison, Speed
from omnai.trial.words import UNTOLD

NAMES = {
    "ffmpeg": "FFmpeg",
    "decode_only": "decode only",
    "whole_pipeline": "whole pipeline",
}


def show_comparison(comparison: Comparison, source: str) -> None:
    """One row a kind of run, then the ratios and what was run."""
    display.say(
        display.seen(
            f"{source}: {comparison.source_s:,.1f} source seconds, {comparison.units:,} units, "
            f"{comparison.cores} cores"
        )
    )
    table = display.table(
        "",
        "× realtime, best",
        "median",
        "processor s",
        "first unit after s",
        "peak memory MiB",
        "loop's processor ms a unit",
    )
    if comparison.ffmpeg_command is None:
        table.add_row("FFmpeg", "no ffmpeg was found")
    for kind, speed in comparison.speeds.items():
        table.add_row(NAMES[kind], *_cells(speed))
    display.console().print(table)
    ratios = comparison.ratios
    if comparison.ffmpeg_command is None:
        return
    display.say(
        f"beside FFmpeg: decode only {_times(ratios.decode_only)} its speed, "
        f"{_times(ratios.decode_only_cpu)} by processor time; "
        f"whole pipeline {_times(ratios.whole_pipeline)}"
    )
    display.say(display.seen(comparison.ffmpeg_version or ""))
    display.say(display.seen(shlex.join(comparison.ffmpeg_command)))


def _cells(speed: Speed) -> list[str]:
    peak, first = speed.peak_bytes, speed.first_unit_s_best
    return [
        f"{speed.times_realtime_best:,.1f}",
        f"{speed.times_realtime_median:,.1f}",
        f"{speed.cpu_s_best:,.2f}",
        UNTOLD if first is None else f"{first:,.2f}",
        UNTOLD if peak is None else f"{peak / 1024**2:,.0f}",
        UNTOLD if first is None else f"{speed.loop_cpu_ms_per_unit:,.2f}",
    ]


def _times(ratio: float | None) -> str:
    return UNTOLD if ratio is None else f"{ratio:.2f}×"
