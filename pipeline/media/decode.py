"""Decodes one stream packet by packet; what cannot be decoded is counted and passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import av

from pipeline.clock import milliseconds
from pipeline.media.audio import Sound
from pipeline.media.mixdown import Mixdown
from pipeline.media.needed import NeededPictures
from pipeline.media.packets import corrected_packets
from pipeline.media.remarks import RemarkBook
from pipeline.media.video import Picture

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

    from pipeline.media.scan import StreamScan

THREADS = 4
"""Decoder threads: more only add address space, and the loop waits for the engine, not for us."""

PICTURES_UNSURE = THREADS + 16
"""An error is known when its packet is read, up to the threads and the reordering depth of H.264
and HEVC before the pictures around it come out."""

TIMES_LOOKED_AT = 48
"""Frames whose order of time stamps is checked before they are trusted."""

EXACT_SKIPS = frozenset({"h264", "mpeg1video", "mpeg2video"})
"""Codecs whose pictures say of themselves that no other picture is predicted from them. HEVC's
"sub-layer non-reference" pictures may be the reference of a higher layer."""

BACKWARD_SHARE_MAX = Fraction(1, 10)
"""With more steps back than this, `pts` holds decode order, as H.264 with B-frames in AVI does."""


class Track:
    """One stream in a container of its own, decoded from its first packet to its last."""

    def __init__(
        self,
        container: InputContainer,
        stream: AudioStream | VideoStream,
        found: StreamScan,
        *,
        first_packet: int,
        remarks: RemarkBook,
        pulse: Callable[[], None],
    ) -> None:
        self._container = container
        self._stream = stream
        self._found = found
        self._first_packet = first_packet
        self._remarks = remarks
        self._pulse = pulse
        self._last = Fraction(0)
        self.origin = Fraction(0)
        """Container time of source time 0, set once the first frames are known."""
        self._unsure = 0
        """For how many of the next pictures something may have been lost before them."""
        self.is_out_of_memory = False
        """Whether a packet needed more memory than this process may have."""
        self._is_damaged = found.corrupt > 0
        self.may_skip = False
        """Whether pictures that nobody is fed may be left undecoded; set before the first frame."""

    @property
    def video(self) -> VideoStream:
        """The stream, where it is one of pictures."""
        assert self._stream.type == "video"
        return self._stream

    def frames(self) -> Iterator[Any]:
        """Decoded frames, past every error. Can be called once."""
        packets = corrected_packets(
            self._container,
            self._stream,
            self._found,
            first=self._first_packet,
            pulse=self._pulse,
            on_error=self._read_error,
        )
        base = None
        for packet in self._chosen(packets):
            base = packet.time_base or base
            if packet.is_corrupt:
                self._lost("packets_damaged", "packets are marked as damaged or lost")
            try:
                frames = self._stream.decode(packet)
            except av.FFmpegError as error:
                self._undecoded(error)
                continue
            yield from frames
        try:
            rest = self._stream.decode(None)
        except av.FFmpegError as error:
            self._undecoded(error)
            return
        for frame in rest:
            if not frame.time_base:
                frame.time_base = base
            yield frame

    def _chosen(self, packets: Iterator[Packet[Stream]]) -> Iterator[Packet[Stream]]:
        """Leaves out, or has the decoder leave out, what no fed picture is made from.

        Only while nothing is damaged: then the next picture that can be decoded stands in for one
        that cannot, whichever it is.
        """
        if not self.may_skip:
            yield from packets
            return
        context: Any = self._stream.codec_context
        is_exact = context.name in EXACT_SKIPS
        is_skipping = False
        is_intra_only = self._found.is_intra_only
        needed = NeededPictures(origin=self.origin, is_intra_only=is_intra_only)
        for marked in needed.mark(packets):
            may_go = not marked.is_needed and not self._is_damaged
            if may_go and is_intra_only:
                continue
            if is_exact and may_go is not is_skipping:
                context.skip_frame = "NONREF" if may_go else "DEFAULT"
                is_skipping = may_go
            yield marked.packet

    def time(self, ticks: int | None, base: Any) -> Fraction | None:
        """Container seconds of a time stamp; None where there is none."""
        if ticks is None or not base:
            return None
        return ticks * Fraction(base.numerator, base.denominator)

    def reached(self, time: Fraction) -> None:
        """Tell where decoding stands, for the times of remarks."""
        self._last = max(self._last, time)

    def take_damage(self) -> bool:
        """Whether something may have been lost before the picture that is asked about."""
        is_unsure = self._unsure > 0
        self._unsure = max(self._unsure - 1, 0)
        return is_unsure

    def close(self) -> None:
        self._container.close()

    def _undecoded(self, error: av.FFmpegError) -> None:
        if isinstance(error, MemoryError):
            self.is_out_of_memory = True
            self._lost("out_of_memory", "packets needed more memory to decode than is allowed")
        else:
            self._lost("decode_errors", "packets could not be decoded")

    def _read_error(self, error: av.FFmpegError) -> None:
        self._lost("read_errors", "the container could not be read on without a break")

    def _lost(self, code: str, message: str) -> None:
        self._unsure = PICTURES_UNSURE
        self._is_damaged = True
        kind = self._stream.type
        at = milliseconds(max(self._last - self.origin, Fraction(0)))
        self._remarks.note(f"{kind}_{code}", f"{kind}: {message}", start_ms=at)


def sounds(track: Track, mixdown: Mixdown) -> Iterator[Sound]:
    """Mono samples of every decodable audio frame, with container times."""
    for frame in track.frames():
        time = track.time(frame.pts, frame.time_base)
        if time is not None:
            track.reached(time)
        try:
            samples = mixdown.mono(frame)
        except av.FFmpegError:
            track._lost("decode_errors", "frames could not be converted")
            continue
        yield Sound(start=time, samples=samples, rate_hz=frame.sample_rate)


@dataclass(frozen=True, kw_only=True)
class PictureTimes:
    """Which time stamp of a decoded frame tells when it is presented."""

    is_by_decode_order: bool
    first: Fraction | None
    """Container time of the first decoded picture; None where none was decoded."""
    is_interlaced: bool = False
    """Whether a picture is made of two fields, which may be two packets."""


def look_at_times(track: Track) -> PictureTimes:
    """Decode the first pictures and see whether their presentation times run forward."""
    times = []
    is_interlaced = False
    for frame in track.frames():
        is_interlaced |= bool(frame.interlaced_frame)
        times.append(
            (track.time(frame.pts, frame.time_base), track.time(frame.dts, frame.time_base))
        )
        if len(times) >= TIMES_LOOKED_AT:
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
    track: Track, times: PictureTimes, *, aspect: Fraction, edge_px: int, remarks: RemarkBook
) -> Iterator[Picture]:
    """Every decodable picture with its source time; frames without one follow their predecessor."""
    previous: Fraction | None = None
    step = Fraction(1, 25)
    for frame in track.frames():
        if frame.is_corrupt:
            track._lost("frames_damaged", "damaged frames were left out")
            continue
        if max(frame.width, frame.height) > edge_px:
            track._lost("frames_too_large", f"frames beyond {edge_px} pixels a side were left out")
            continue
        ticks = frame.dts if times.is_by_decode_order or frame.pts is None else frame.pts
        time = track.time(ticks, frame.time_base)
        if time is None:
            time = track.origin if previous is None else previous + step
            remarks.note(
                "picture_times_estimated", "pictures without a time stamp were spaced evenly"
            )
        elif previous is not None and Fraction(0) < time - previous < 1:
            step = time - previous
        previous = time
        track.reached(time)
        yield Picture(
            time=max(time - track.origin, Fraction(0)),
            frame=frame,
            aspect=aspect,
            is_after_damage=track.take_damage(),
        )
