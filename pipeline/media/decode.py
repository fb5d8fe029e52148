"""Decodes one stream packet by packet; what cannot be decoded is counted and passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import av

from pipeline.clock import milliseconds
from pipeline.media.appearance import Appearance
from pipeline.media.needed import NeededPackets, NeededPictures
from pipeline.media.packets import corrected_packets
from pipeline.media.predicted import reader_of
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
        self.pixels_max: int | None = None
        """Most pixels of a picture that the decoder was told to take."""
        self.is_out_of_memory = False
        """Whether a packet needed more memory than this process may have."""
        self._is_damaged = found.corrupt > 0
        self.may_skip = False
        """Whether pictures that nobody is fed may be left undecoded; set before the first frame."""
        self._needed: NeededPackets | None = None
        self._read: Packet[Stream] | None = None
        """The last packet that was read; decoding may stand some seconds before it."""

    @property
    def video(self) -> VideoStream:
        """The stream, where it is one of pictures."""
        assert self._stream.type == "video"
        return self._stream

    @property
    def found(self) -> StreamScan:
        """What the scan found of its packets."""
        return self._found

    @property
    def context(self) -> Any:
        """The decoder's state."""
        return self._stream.codec_context

    @property
    def time_base(self) -> Fraction:
        """Seconds of one tick of its time stamps."""
        base: Any = self._stream.time_base
        return Fraction(base.numerator, base.denominator)

    @property
    def declared_end(self) -> Fraction | None:
        """Container time at which an edit list (ISO/IEC 14496-12, 8.6.6) ends the stream.

        Opus has its own way to say so, and FFmpeg goes by that.
        """
        start, duration = self._stream.start_time, self._stream.duration
        is_edited = self._container.format.name.startswith("mov") and self.context.name != "opus"
        if not is_edited or start is None or duration is None:
            return None
        return (start + duration) * self.time_base

    def frames(self) -> Iterator[Any]:
        """Decoded frames, past every error. Can be called once."""
        for packet, frames in self.decoded():
            if packet is not None and packet.is_corrupt:
                self.marked(at=self._time_of(packet))
            if isinstance(frames, av.FFmpegError):
                self.undecoded(frames, at=self._time_of(packet))
            else:
                yield from frames

    def decoded(self) -> Iterator[tuple[Packet[Stream] | None, list[Any] | av.FFmpegError]]:
        """Each packet with its frames, or why it has none; then, without a packet, what the decoder
        held back. Can be called once.
        """
        packets = corrected_packets(
            self._container,
            self._stream,
            self._found,
            first=self._first_packet,
            pulse=self._pulse,
            on_error=self._read_error,
        )
        base = None
        for packet in self._chosen(self._noted(packets)):
            base = packet.time_base or base
            frames: list[Any] | av.FFmpegError
            try:
                frames = self._stream.decode(packet)
            except av.FFmpegError as error:
                frames = error
            yield packet, frames
        try:
            rest = self._stream.decode(None)
        except av.FFmpegError as error:
            yield None, error
            return
        for frame in rest:
            if not frame.time_base:
                frame.time_base = base
        yield None, rest

    def _noted(self, packets: Iterator[Packet[Stream]]) -> Iterator[Packet[Stream]]:
        for packet in packets:
            self._read = packet
            yield packet

    def _time_of(self, packet: Packet[Stream] | None) -> Fraction | None:
        """When what a packet holds is presented, as far as is known."""
        if packet is None:
            return None
        return self.time(packet.dts if packet.pts is None else packet.pts, packet.time_base)

    def _chosen(self, packets: Iterator[Packet[Stream]]) -> Iterator[Packet[Stream]]:
        """Leaves out what no fed picture is made from, until something is damaged."""
        if not self.may_skip or self._is_damaged:
            yield from packets
            return
        is_intra_only = self._found.is_intra_only
        reader = reader_of(self._stream.codec_context, is_intra_only=is_intra_only)
        needed = NeededPictures(origin=self.origin, is_intra_only=is_intra_only)
        self._needed = NeededPackets(reader)
        yield from self._needed.choose(needed.mark(packets))

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

    def marked(self, *, at: Fraction | None = None) -> None:
        """Note that the file or its reader marks a packet as damaged."""
        self.lose("packets_damaged", "packets are marked as damaged or lost", at=at)

    def undecoded(
        self,
        error: av.FFmpegError,
        *,
        count: int = 1,
        at: Fraction | None = None,
        until: Fraction | None = None,
    ) -> None:
        """Note that packets could not be decoded, from and up to container times where known."""
        code, message = "decode_errors", "packets could not be decoded"
        if isinstance(error, MemoryError):
            self.is_out_of_memory = True
            code, message = "out_of_memory", "packets needed more memory to decode than is allowed"
        elif self._is_size_refused():
            code, message = "frames_too_large", "pictures larger than accepted were left out"
        self.lose(code, message, count=count, at=at, until=until)

    def _is_size_refused(self) -> bool:
        """By what the decoder has left of the size that it did not take: nothing, or all of it."""
        if self._stream.type != "video" or self.pixels_max is None:
            return False
        context: Any = self._stream.codec_context
        pixels = context.width * context.height
        return bool(pixels == 0 or pixels > self.pixels_max)

    def _read_error(self, error: av.FFmpegError) -> None:
        self.lose(
            "read_errors",
            "the container could not be read on without a break",
            at=self._time_of(self._read),
        )

    def lose(
        self,
        code: str,
        message: str,
        *,
        count: int = 1,
        at: Fraction | None = None,
        until: Fraction | None = None,
    ) -> None:
        """Note that something is lost from a container time, else from where decoding stands, to
        another one.
        """
        self._unsure = PICTURES_UNSURE
        self._is_damaged = True
        if self._needed is not None:
            self._needed.keep_all()
        kind = self._stream.type
        start_ms, end_ms = (
            None if time is None else milliseconds(max(time - self.origin, Fraction(0)))
            for time in (self._last if at is None else at, until)
        )
        self._remarks.note(
            f"{kind}_{code}", f"{kind}: {message}", start_ms=start_ms, end_ms=end_ms, count=count
        )


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
    track: Track,
    times: PictureTimes,
    *,
    appearance: Appearance,
    edge_px: int,
    remarks: RemarkBook,
) -> Iterator[Picture]:
    """Every decodable picture with its source time; frames without one follow their predecessor."""
    previous: Fraction | None = None
    step = Fraction(1, 25)
    for frame in track.frames():
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
        appearance.complete(frame)
        yield Picture(
            time=max(time - track.origin, Fraction(0)),
            frame=frame,
            aspect=appearance.aspect,
            is_after_damage=track.take_damage(),
        )
