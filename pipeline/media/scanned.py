"""What one pass over a file's packets found, before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FORWARD_JUMP_US = 30_000_000
"""A step forward beyond this is a gap of its own (design.md, rule 5)."""


@dataclass
class StreamScan:
    """What the packets of one stream say."""

    packets: int = 0
    keys: int = 0
    """Packets that can be decoded without another."""
    corrupt: int = 0
    key_before_start: int = 0
    """Ordinal of the last key packet decoded at or before the wanted start."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Stretches of container time in µs, split at steps of more than 30 s."""
    offsets: list[tuple[int, int]] = field(default_factory=list)
    """From packet ordinal on, µs to add to its time stamps."""
    turns: list[tuple[int, int]] = field(default_factory=list)
    """From packet ordinal on, whole periods of the file's clock, in ticks, to add to them."""
    strays: set[int] = field(default_factory=set)
    """Ordinals whose time stamp is a lone outlier and is not believed."""

    @property
    def is_intra_only(self) -> bool:
        return self.keys == self.packets


@dataclass
class Scan:
    """What the packets of a file say, by stream index."""

    streams: dict[int, StreamScan] = field(default_factory=dict)
    start_us: int | None = None
    """The container's own start on the clock of the packets; None where it gives none."""
    last_at: int = 0
    """Where in the file the last packet that was read begins, as far as its reader says so."""
    resets: list[tuple[int, int]] = field(default_factory=list)
    """Backward clock jumps that were continued: µs reached before, µs the file said."""

    def span_us(self, indexes: Iterable[int]) -> tuple[int, int] | None:
        """From the first to the last time stamp of these streams; None where they have none."""
        runs = self._runs(indexes)
        return (runs[0][0], max(end for _, end in runs)) if runs else None

    def content_us(self, indexes: Iterable[int]) -> int:
        """Time in which any of these streams has a packet, pauses up to 30 s counted in."""
        total, reach = 0, None
        for start, end in self._runs(indexes):
            if reach is None or start > reach + FORWARD_JUMP_US:
                total += end - start
                reach = end
            elif end > reach:
                total += end - reach
                reach = end
        return total

    def _runs(self, indexes: Iterable[int]) -> list[tuple[int, int]]:
        found = [self.streams[index] for index in indexes if index in self.streams]
        return sorted(run for stream in found for run in stream.runs)
