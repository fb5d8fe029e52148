"""One pass over packet time stamps: where streams begin, end, pause and jump, before decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import av

BACK_JUMP_US = 500_000
"""A step back of this much begins a new part, as joined transport streams have."""

FORWARD_JUMP_US = 30_000_000
"""A step forward beyond this is a gap of its own (design.md, rule 5)."""

RUNS_MAX = 100_000
"""Stretches kept for one stream; later ones extend the last."""

REORDERED_MAX = 16
"""Pictures by which presentation runs ahead of decoding at most (H.264, HEVC)."""

JUMPS_MAX = 10_000
"""Corrections kept for one stream; a file with more has no clock worth following."""


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
    strays: set[int] = field(default_factory=set)
    """Ordinals whose time stamp is a lone outlier and is not believed."""

    @property
    def is_intra_only(self) -> bool:
        return self.keys == self.packets


@dataclass
class Scan:
    """What the packets of a file say, by stream index."""

    streams: dict[int, StreamScan] = field(default_factory=dict)
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


@dataclass
class _Pending:
    """A packet whose time does not follow; the next one tells whether the clock jumped."""

    ordinal: int
    time: int
    end: int


class _StreamClock:
    """Follows one stream's decode time and decides which jumps are real."""

    def __init__(self, scan: Scan, found: StreamScan) -> None:
        self._scan = scan
        self._found = found
        self._end: int | None = None
        self._step = 40_000
        self._offset = 0
        self._part = 0
        self._pending: _Pending | None = None
        self._is_shown = False

    def see(self, ordinal: int, time: int, duration: int, *, is_shown: bool = False) -> None:
        """Take in one packet; `is_shown` where its time is that of presentation, not decoding."""
        time += self._offset
        if self._pending is not None:
            time = self._settle(time)
        step = duration if duration > 0 else self._step
        is_other_kind = is_shown != self._is_shown
        slack = REORDERED_MAX * step if is_other_kind else 0
        if self._end is not None and self._is_jump(time, slack):
            self._pending = _Pending(ordinal, time, time + step)
            return
        if is_other_kind:
            self._is_shown = is_shown
            self._end = None
        self._extend(time, time + step)

    def finish(self) -> None:
        """A last packet far ahead is believed (a slide at the end); one far behind is not."""
        pending, self._pending = self._pending, None
        if pending is None or self._end is None:
            return
        if pending.time > self._end:
            self._extend(pending.time, pending.end)
        else:
            self._found.strays.add(pending.ordinal)

    def _is_jump(self, time: int, slack: int) -> bool:
        assert self._end is not None
        return time < self._end - BACK_JUMP_US - slack or time > self._end + FORWARD_JUMP_US

    def _settle(self, time: int) -> int:
        """Decide the pending jump; return this packet's time under that decision."""
        pending, self._pending = self._pending, None
        assert pending is not None
        assert self._end is not None
        if pending.time > self._end:
            if time < pending.time - BACK_JUMP_US:
                self._found.strays.add(pending.ordinal)
            else:  # the source clock itself went on: stay on it
                self._extend(pending.time, pending.end)
            return time
        if time >= self._end - BACK_JUMP_US:
            self._found.strays.add(pending.ordinal)
            return time
        if len(self._found.offsets) >= JUMPS_MAX:
            return time
        shift = self._shift_back(pending.time)
        self._offset += shift
        self._found.offsets.append((pending.ordinal, self._offset))
        self._extend(pending.time + shift, pending.end + shift)
        return time + shift

    def _shift_back(self, time: int) -> int:
        """What continues the clock; streams of one file share each part's shift."""
        assert self._end is not None
        said = time - self._offset
        self._part += 1
        resets = self._scan.resets
        if len(resets) >= self._part:
            before, after = resets[self._part - 1]
            return before - after - self._offset
        resets.append((self._end, said))
        return self._end - time

    def _extend(self, time: int, end: int) -> None:
        if self._end is not None and time > self._end:
            self._step = min(max(end - time, 1000), 1_000_000)
        runs = self._found.runs
        if runs and (time <= runs[-1][1] + FORWARD_JUMP_US or len(runs) >= RUNS_MAX):
            runs[-1] = (min(time, runs[-1][0]), max(end, runs[-1][1]))
        else:
            runs.append((time, end))
        self._end = end if self._end is None else max(end, time)


def scan_packets(
    container: av.container.InputContainer, *, start_us: int, pulse: Callable[[], None]
) -> Scan:
    """Read every packet's time stamps; nothing is decoded and memory does not grow with length.

    `start_us` is the wanted start in container time.
    """
    scan = Scan()
    clocks: dict[int, _StreamClock] = {}
    for packet in packets_of(container, None, pulse=pulse):
        kind = packet.stream.type
        if kind not in ("audio", "video"):
            continue
        index = packet.stream.index
        found = scan.streams.setdefault(index, StreamScan())
        clock = clocks.setdefault(index, _StreamClock(scan, found))
        ordinal = found.packets
        found.packets += 1
        found.keys += bool(packet.is_keyframe)
        found.corrupt += bool(packet.is_corrupt)
        ticks, is_shown = packet.dts, False
        if ticks is None and (kind == "audio" or packet.is_keyframe):
            ticks, is_shown = packet.pts, kind == "video"  # in order only for these
        base = packet.time_base
        if ticks is None or not base:
            continue
        time = ticks * base.numerator * 1_000_000 // base.denominator
        duration = (packet.duration or 0) * base.numerator * 1_000_000 // base.denominator
        clock.see(ordinal, time, duration, is_shown=is_shown)
        if packet.is_keyframe and not found.offsets and time <= start_us:
            found.key_before_start = ordinal
    for clock in clocks.values():
        clock.finish()
    return scan


def packets_of(
    container: av.container.InputContainer,
    stream: av.stream.Stream | None,
    *,
    pulse: Callable[[], None],
    on_error: Callable[[av.FFmpegError], None] | None = None,
) -> Iterator[av.Packet[av.stream.Stream]]:
    """Packets of one stream, or of all, past read errors; ends at the first error that repeats."""
    source = container.demux(stream) if stream is not None else container.demux()
    errors_in_a_row = 0
    while True:
        try:
            packet = next(source)
        except StopIteration:
            return
        except av.FFmpegError as error:
            if on_error is not None:
                on_error(error)
            errors_in_a_row += 1
            if errors_in_a_row > 8:
                return
            # An exception ends the generator; a fresh one reads on from where the file stands.
            source = container.demux(stream) if stream is not None else container.demux()
            continue
        errors_in_a_row = 0
        pulse()
        if packet.size == 0 and packet.dts is None:
            continue  # the flush packet PyAV adds at the end
        yield packet
