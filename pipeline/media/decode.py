"""The pictures of a stream at their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import av

from pipeline.media.appearance import Appearance
from pipeline.media.remarks import RemarkBook
from pipeline.media.track import Passed, Track
from pipeline.media.video import NoPicture, Picture

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

if TYPE_CHECKING:
    pass

TIMES_LOOKED_AT = 48
"""Frames whose order of time stamps is checked before they are trusted."""

TIMES_ENOUGH = 8
"""Of them, where the packets themselves are out of order by their presentation times: that they
have such times is what the others are looked at for."""

BACKWARD_SHARE_MAX = Fraction(1, 10)
"""With more steps back than this, `pts` holds decode order, as H.264 with B-frames in AVI does."""


@dataclass(frozen=True, kw_only=True)
class PictureTimes:
    """Which time stamp of a decoded frame tells when it is presented."""

    is_by_decode_order: bool
    first: Fraction | None
    """Container time of the first decoded picture; None where none was decoded."""
    is_interlaced: bool = False
    """Whether a picture is made of two fields, which may be two packets."""


class _Order:
    """Whether the times that a stream's packets carry are those of presentation."""

    def __init__(self) -> None:
        self._latest: int | None = None
        self._back = 0
        self._has_all = True

    def see(self, packet: Packet[Stream]) -> None:
        pts, dts = packet.pts, packet.dts
        if pts is None or (dts is not None and pts < dts):
            self._has_all = False
            return
        self._back += self._latest is not None and pts < self._latest
        self._latest = pts if self._latest is None else max(self._latest, pts)

    @property
    def is_of_presentation(self) -> bool:
        """Decode times never run back, so twice is no single damaged stamp."""
        return self._has_all and self._back >= 2


def look_at_times(track: Track) -> PictureTimes:
    """Decode the first pictures and see whether their presentation times run forward."""
    times: list[tuple[Fraction | None, Fraction | None]] = []
    is_interlaced = False
    order = _Order()
    for packet, frames in track.decoded():
        if packet is not None:
            order.see(packet)
        if isinstance(frames, av.FFmpegError):
            track.undecoded(frames)
            continue
        for frame in frames:
            is_interlaced |= bool(frame.interlaced_frame)
            times.append(
                (track.time(frame.pts, frame.time_base), track.time(frame.dts, frame.time_base))
            )
        enough = TIMES_ENOUGH if order.is_of_presentation else TIMES_LOOKED_AT
        if len(times) >= enough:
            break
    by_pts = [pts for pts, _ in times if pts is not None]
    back = sum(later < earlier for earlier, later in pairwise(by_pts))
    is_by_decode_order = back > BACKWARD_SHARE_MAX * len(times)
    chosen = [dts if is_by_decode_order or pts is None else pts for pts, dts in times]
    known = [time for time in chosen if time is not None]
    first = min(known) if known else (Fraction(0) if times else None)
    return PictureTimes(
        is_by_decode_order=is_by_decode_order, first=first, is_interlaced=is_interlaced
    )


def pictures(
    track: Track,
    times: PictureTimes,
    *,
    appearance: Appearance,
    edge_px: int,
    remarks: RemarkBook,
) -> Iterator[Picture | NoPicture]:
    """Every decodable picture with its source time; frames without one follow their predecessor.

    Where none can be decoded for long, it is told up to when there is none.
    """
    previous: Fraction | None = None
    step = Fraction(1, 25)
    for frame in track.frames():
        if isinstance(frame, Passed):
            if not times.is_by_decode_order and previous is not None and frame.time > previous:
                yield NoPicture(before=max(frame.time - track.origin, Fraction(0)))
            continue
        ticks = frame.dts if times.is_by_decode_order or frame.pts is None else frame.pts
        time = track.time(ticks, frame.time_base)
        if frame.is_corrupt:
            track.lose("frames_damaged", "damaged frames were left out", at=time)
            continue
        if max(frame.width, frame.height) > edge_px:
            what = f"frames beyond {edge_px} pixels a side were left out"
            track.lose("frames_too_large", what, at=time)
            continue
        if time is None:
            step = track.time(frame.duration or None, frame.time_base) or step
            time = track.origin if previous is None else previous + step
            remarks.note(
                "picture_times_estimated", "pictures without a time stamp were spaced evenly"
            )
        elif previous is not None and Fraction(0) < time - previous < 1:
            step = time - previous
        previous = time
        track.reached(time)
        appearance.follow(track.context)
        appearance.complete(frame)
        yield Picture(
            time=max(time - track.origin, Fraction(0)),
            frame=frame,
            aspect=appearance.aspect,
            is_after_damage=track.take_damage(),
        )
