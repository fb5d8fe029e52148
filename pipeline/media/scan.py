"""One pass over packet time stamps: where streams begin, end, pause and jump, before decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import av

from pipeline.media.joints import Place, StreamClock, Turns, join_parts
from pipeline.media.scanned import Scan, StreamScan

KEY_MARGIN_US = 2_000_000
"""Decoding begins at a key picture at least this long before the wanted start: it is presented
later than the decode time that the scan knows, by the reordering delay."""

WRAPPING = frozenset({"mpegts", "mpeg"})
"""Formats with that clock. FFmpeg follows it through one wrap, if the first packet it meets is one
of the earliest."""


def scan_packets(
    container: av.container.InputContainer, *, start_s: int, pulse: Callable[[], None]
) -> Scan:
    """Read every packet's time stamps; nothing is decoded and memory does not grow with length.

    `start_s` is the wanted start in source seconds.
    """
    scan = Scan()
    clocks: dict[int, StreamClock] = {}
    turns = Turns(is_wrapping=container.format.name in WRAPPING)
    earliest = container.start_time
    for in_file, packet in enumerate(packets_of(container, None, pulse=pulse)):
        kind = packet.stream.type
        if kind not in ("audio", "video"):
            continue
        index = packet.stream.index
        found = scan.streams.setdefault(index, StreamScan())
        clock = clocks.setdefault(index, StreamClock(found))
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
        time = turns.unwrapped(found, ordinal, _microseconds(ticks, base))
        ahead = 0 if packet.pts is None else _microseconds(packet.pts - ticks, base)
        place = Place(in_file=in_file, ordinal=ordinal, shown=time + ahead)
        clock.see(place, time, _microseconds(packet.duration or 0, base), is_shown=is_shown)
        earliest = time if earliest is None else min(earliest, time)
        wanted = earliest + start_s * 1_000_000 - KEY_MARGIN_US
        if packet.is_keyframe and not clock.parts and time <= wanted:
            found.key_before_start = ordinal
    for clock in clocks.values():
        clock.finish()
    join_parts(scan, clocks)
    scan.start_us = turns.start(container.start_time)
    return scan


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
