"""One pass over packet time stamps: where streams begin, end, pause and jump, before decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import av

from pipeline.media.decode_order import Dated, DecodeOrder
from pipeline.media.joints import Place, StreamClock, join_parts
from pipeline.media.scanned import FORWARD_JUMP_US, Scan, StreamScan
from pipeline.media.turns import PERIODS, Turns

KEY_MARGIN_US = 2_000_000
"""Decoding begins at a key picture at least this long before the wanted start: it is presented
later than the decode time that the scan knows, by the reordering delay."""

NEGATIVE_TICKS = 1 << 31

PRESENTED = frozenset({"matroska,webm"})
"""Formats that say when pictures are presented and not when they are decoded."""


class _Clocks:
    """The clocks of a file's streams, as its packets come."""

    def __init__(self, scan: Scan, *, earliest: int | None, start_s: int) -> None:
        self._scan = scan
        self._clocks: dict[int, StreamClock] = {}
        self._orders: dict[int, DecodeOrder] = {}
        self._earliest = earliest
        self._start_us = start_s * 1_000_000 - KEY_MARGIN_US

    def reorder(self, index: int) -> None:
        """This stream's packets have times of presentation only."""
        self._orders.setdefault(index, DecodeOrder())

    def see(self, index: int, packet: Dated) -> None:
        order = self._orders.get(index)
        if order is None:
            self._take(index, packet)
            return
        for one in order.push(packet):
            self._take(index, one)

    def finish(self) -> None:
        for index, order in self._orders.items():
            for packet in order.finish():
                self._take(index, packet)
        for clock in self._clocks.values():
            clock.finish()
        join_parts(self._scan, self._clocks)

    def _take(self, index: int, packet: Dated) -> None:
        found = self._scan.streams[index]
        clock = self._clocks.setdefault(index, StreamClock(found))
        time = packet.time
        clock.see(packet.place, time, packet.duration, is_shown=packet.is_shown)
        self._earliest = time if self._earliest is None else min(self._earliest, time)
        if packet.is_key and not clock.parts and time <= self._earliest + self._start_us:
            found.key_before_start = packet.place.ordinal


def scan_packets(
    container: av.container.InputContainer, *, start_s: int, pulse: Callable[[], None]
) -> Scan:
    """Read every packet's time stamps; nothing is decoded and memory does not grow with length.

    `start_s` is the wanted start in source seconds.
    """
    scan = Scan()
    clocks = _Clocks(scan, earliest=container.start_time, start_s=start_s)
    turns = Turns(PERIODS.get(container.format.name))
    is_presented = container.format.name in PRESENTED
    for in_file, packet in enumerate(packets_of(container, None, pulse=pulse)):
        if packet.pos is not None:
            scan.last_at = max(scan.last_at, packet.pos)
        kind = packet.stream.type
        if kind not in ("audio", "video"):
            continue
        index = packet.stream.index
        found = scan.streams.setdefault(index, StreamScan())
        ordinal = found.packets
        found.packets += 1
        found.keys += bool(packet.is_keyframe)
        found.corrupt += bool(packet.is_corrupt)
        ticks, is_shown = packet.dts, False
        if is_presented and kind == "video" and packet.pts is not None:
            ticks = packet.pts
            clocks.reorder(index)
        elif ticks is None and (kind == "audio" or packet.is_keyframe):
            ticks, is_shown = packet.pts, kind == "video"  # in order only for these
        base = packet.time_base
        if ticks is None or not base:
            continue
        time = turns.unwrapped(found, ordinal, _microseconds(ticks, base))
        ahead = 0 if packet.pts is None else _microseconds(packet.pts - ticks, base)
        clocks.see(
            index,
            Dated(
                place=Place(in_file=in_file, ordinal=ordinal, shown=time + ahead),
                time=time,
                duration=_duration(packet.duration or 0, base),
                is_key=bool(packet.is_keyframe),
                is_shown=is_shown,
            ),
        )
    clocks.finish()
    scan.start_us = turns.start(container.start_time)
    return scan


def _duration(ticks: int, base: Fraction) -> int:
    """0 where it is none: FFmpeg has one below 0, in 32 bits, at the end of a later part of Ogg."""
    us = _microseconds(ticks, base)
    return 0 if ticks >= NEGATIVE_TICKS and us > FORWARD_JUMP_US else us


def _microseconds(ticks: int, base: Fraction) -> int:
    return ticks * base.numerator * 1_000_000 // base.denominator


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
        except (StopIteration, IndexError):
            return  # with the latter where a stream came up that was not there when it began
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
