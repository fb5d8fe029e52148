"""Copies a clip packet by packet, losing, moving or spoiling some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.packet import Packet


@dataclass(frozen=True, kw_only=True)
class Edit:
    """What happens to one packet."""

    is_lost: bool = False
    shift_s: float = 0
    content: bytes | None = None


Edits = Mapping[tuple[str, int], Edit]
"""By stream kind and the packet's ordinal in its stream."""


def remux(path: Path, edits: Edits, *, suffix: str | None = None) -> Path:
    """A copy of the clip with these edits, beside it."""
    key = hashlib.sha256(repr(sorted(edits.items(), key=str)).encode()).hexdigest()[:12]
    out = path.with_name(f"{path.stem}-{key}{suffix or path.suffix}")
    counts: dict[str, int] = {}
    with av.open(str(path)) as source, av.open(str(out), "w") as sink:
        streams = {stream.index: sink.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.size == 0:
                continue
            kind = packet.stream.type
            ordinal = counts[kind] = counts.get(kind, -1) + 1
            edit = edits.get((kind, ordinal), Edit())
            if edit.is_lost:
                continue
            moved = _edited(packet, edit)
            moved.stream = streams[packet.stream.index]
            sink.mux_one(moved)
    return out


def _edited(packet: Packet, edit: Edit) -> Packet:
    if edit.content is not None:
        spoiled = Packet(edit.content)
        spoiled.pts, spoiled.dts, spoiled.time_base = packet.pts, packet.dts, packet.time_base
        spoiled.duration = packet.duration
        spoiled.is_keyframe = packet.is_keyframe
        packet = spoiled
    if edit.shift_s:
        assert packet.time_base is not None
        ticks = round(Fraction(edit.shift_s) / packet.time_base)
        packet.pts = None if packet.pts is None else packet.pts + ticks
        packet.dts = None if packet.dts is None else packet.dts + ticks
    return packet
