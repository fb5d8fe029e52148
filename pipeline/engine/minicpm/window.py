"""What the model can still remember, by the two figures that can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.engine.minicpm.native import Duplex, NativeFailed


@dataclass(frozen=True, kw_only=True)
class Window:
    """The decoder's window after a unit."""

    cached_tokens: int
    """The protected context included."""
    units: int
    """Units with all their tokens."""
    start_sequence: int
    """The oldest of them."""


def window_after(duplex: Duplex, sequence: int) -> Window:
    """Read after unit `sequence`. The model's own statistics helper raises at any time.

    Every unit adds one entry and the oldest fall out first, so that the count gives the oldest.
    Raises NativeFailed where the count cannot be: a unit was not closed, or one was lost.
    """
    decoder = duplex.decoder
    units = len(decoder._unit_history)
    if not 0 <= units <= sequence + 1:
        raise NativeFailed(f"{units} units in the window after {sequence + 1} were fed")
    return Window(
        cached_tokens=int(decoder.get_cache_length()),
        units=units,
        start_sequence=min(sequence, sequence + 1 - units),
    )
