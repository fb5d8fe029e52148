"""One stream, decoded packet by packet; what cannot be decoded is counted and passed over."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

import av

from pipeline.clock import milliseconds
from pipeline.media.needed import NeededPackets, NeededPictures
from pipeline.media.packets import corrected_packets
from pipeline.media.predicted import reader_of
from pipeline.media.recent import Recent
from pipeline.media.remarks import RemarkBook
from pipeline.media.shortage import is_memory_short

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

    from pipeline.media.scanned import StreamScan

THREADS_MAX = 4
"""Decoder threads: more only add address space, and the loop waits for the engine, not for us."""

PICTURES_UNSURE = THREADS_MAX + 16
"""An error is known when its packet is read, up to the threads and the reordering depth of H.264
and HEVC before the pictures around it come out."""


@dataclass(frozen=True, kw_only=True)
class Passed:
    """No picture comes that is presented before this container time."""

    time: Fraction


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
        fresh_decoder: Callable[[], Any] | None = None,
        may_skip: bool = False,
    ) -> None:
        """Where it `may_skip`, the stream's own decoder stops at every fault; pictures may be left
        undecoded up to the first one, and a `fresh_decoder` takes over.
        """
        self._container = container
        self._stream = stream
        self._decoder: Any = stream.codec_context
        self._fresh_decoder = fresh_decoder
        self._may_skip = may_skip
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
        self._needed: NeededPackets | None = None
        self._mute: deque[Fraction | None] = deque()
        """Decode times of the last packets, while none gives a picture."""
        self._passed_at = Fraction(0)
        self._breaks: list[Packet[Stream]] = []
        """Packets after which the file could not be read on, noted once those are decoded."""
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
        return self._decoder

    @property
    def may_skip(self) -> bool:
        """Whether pictures that nobody is fed are left undecoded."""
        return self._may_skip and not self._is_damaged

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
        """Decoded frames, past every error, and `Passed` where none comes for long. Can be called
        once.

        Where some are left undecoded and damage shows, decoding begins anew a little earlier and
        leaves nothing out: what stands in for a damaged picture is made of any before it.
        """
        packets = self._packets()
        given: int | None = None
        if self.may_skip:
            recent = Recent()
            for packet, frames in self._decoded(self._chosen(recent.keep(packets))):
                if isinstance(frames, av.FFmpegError) or self._is_in_doubt(packet, frames):
                    break
                for frame in frames:
                    given = frame.pts
                    recent.reached(given)
                    yield frame
                yield from self._passed(packet, frames)
            else:
                return
            self._begin_anew()
            packets = chain(self._again(recent), packets)
        for packet, frames in self._decoded(packets, Recent()):
            for frame in self._kept(packet, frames):
                if given is not None and frame.pts is not None and frame.pts <= given:
                    continue
                given = None
                yield frame
            yield from self._passed(packet, frames)

    def decoded(self) -> Iterator[tuple[Packet[Stream] | None, list[Any] | av.FFmpegError]]:
        """Each packet with its frames, or why it has none; then, without a packet, what the decoder
        held back. Can be called once.
        """
        return self._decoded(self._packets(), Recent() if self._stream.type == "video" else None)

    def _packets(self) -> Iterator[Packet[Stream]]:
        return self._noted(
            corrected_packets(
                self._container,
                self._stream,
                self._found,
                first=self._first_packet,
                pulse=self._pulse,
                on_error=self._read_error,
            )
        )

    def _kept(self, packet: Packet[Stream] | None, frames: list[Any] | av.FFmpegError) -> list[Any]:
        """The frames of one packet, what is wrong with it noted."""
        if packet is not None and packet.is_corrupt:
            self.marked(at=self._time_of(packet))
        if isinstance(frames, av.FFmpegError):
            self.undecoded(frames, at=self._time_of(packet))
            return []
        return frames

    def _is_in_doubt(self, packet: Packet[Stream] | None, frames: list[Any]) -> bool:
        """Whether these may be other frames than if nothing were left out, or one of them is not
        there.

        Of a picture in two fields one could be missing, and without a time it is not known which
        were given out.
        """
        if self._breaks or (packet is not None and packet.is_corrupt):
            return True
        if any(f.is_corrupt or f.interlaced_frame or f.pts is None for f in frames):
            return True
        given = [frame.pts for frame in frames]
        return self._needed is not None and self._needed.is_missing(given, is_end=packet is None)

    def _passed(
        self, packet: Packet[Stream] | None, frames: list[Any] | av.FFmpegError
    ) -> Iterator[Passed]:
        """Where packets give nothing: up to when no picture is to come.

        Presentation is never before decoding, so that is when a packet is decoded of which the
        decoder holds nothing back any more.
        """
        if packet is None:
            return
        if not isinstance(frames, av.FFmpegError) and any(not f.is_corrupt for f in frames):
            self._mute.clear()
            return
        time = self.time(packet.dts, packet.time_base)
        self._mute.append(time)
        if len(self._mute) > PICTURES_UNSURE:
            time = self._mute.popleft()
            if time is not None and time >= self._passed_at + 1:
                self._passed_at = time
                yield Passed(time=time)

    def _begin_anew(self) -> None:
        assert self._fresh_decoder is not None
        self._mute.clear()
        self._needed = None
        self._decoder = self._fresh_decoder()
        self._may_skip = False

    def _again(self, recent: Recent) -> Iterator[Packet[Stream]]:
        """The last packets once more, with the breaks that the file had between them."""
        breaks, self._breaks = self._breaks, []
        for packet in recent.take():
            yield packet
            for broken in breaks:
                if broken is packet:
                    self._read_error_after(packet)

    def _decoded(
        self, packets: Iterator[Packet[Stream]], recent: Recent | None = None
    ) -> Iterator[tuple[Packet[Stream] | None, list[Any] | av.FFmpegError]]:
        """With `recent`, what its threads hold back at the end is given past a fault, too."""
        base: Any = None
        given: int | None = None
        for packet in packets if recent is None else recent.keep(packets):
            base = packet.time_base or base
            frames: list[Any] | av.FFmpegError
            try:
                frames = self._decoder.decode(packet)
            except av.FFmpegError as error:
                frames = self._named(error)
            if recent is not None and not isinstance(frames, av.FFmpegError):
                for ticks in (frame.pts for frame in frames if frame.pts is not None):
                    given = ticks if given is None else max(given, ticks)
                    recent.reached(given)
            yield packet, frames
        try:
            rest = self._decoder.decode(None)
        except av.FFmpegError as error:
            yield None, self._named(error)
            if recent is None or self._fresh_decoder is None:
                return
            rest = self._held_back(recent, given)
        for frame in rest:
            if not frame.time_base:
                frame.time_base = base
        yield None, rest

    def _held_back(self, recent: Recent, given: int | None) -> list[Any]:
        """What the decoder's threads held when one met a fault at the end, of which PyAV gives
        nothing. One thread tells of a fault with the packet that has it.
        """
        assert self._fresh_decoder is not None
        self._decoder = self._fresh_decoder()
        self._decoder.thread_count = 1
        found: list[Any] = []
        for _, frames in self._decoded(recent.take()):
            if not isinstance(frames, av.FFmpegError):
                found += [
                    f for f in frames if f.pts is not None and (given is None or f.pts > given)
                ]
        return found

    def _named(self, error: av.FFmpegError) -> av.FFmpegError:
        """The same, or want of memory where that is behind it; noted at once, since what decodes
        the packet anew may meet it under another name.
        """
        if self._stream.type == "video" and is_memory_short(self._decoder):
            error = av.error.MemoryError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self.is_out_of_memory |= isinstance(error, MemoryError)
        return error

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
        is_intra_only = self._found.is_intra_only
        reader = reader_of(self._decoder, is_intra_only=is_intra_only)
        needed = NeededPictures(origin=self.origin, is_intra_only=is_intra_only)
        self._needed = NeededPackets(reader)
        return self._needed.choose(needed.mark(packets))

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
            code, message = "out_of_memory", "packets needed more memory to decode than is allowed"
        elif self._is_size_refused():
            code, message = "frames_too_large", "pictures larger than accepted were left out"
        self.lose(code, message, count=count, at=at, until=until)

    def _is_size_refused(self) -> bool:
        """By what the decoder has left of the size that it did not take: nothing, or all of it."""
        if self._stream.type != "video" or self.pixels_max is None:
            return False
        pixels = self._decoder.width * self._decoder.height
        return bool(pixels == 0 or pixels > self.pixels_max)

    def _read_error(self, error: av.FFmpegError) -> None:
        if self._needed is not None and self._needed.is_leaving_out and self._read is not None:
            self._breaks.append(self._read)  # reading is ahead of what was decoded
        else:
            self._read_error_after(self._read)

    def _read_error_after(self, packet: Packet[Stream] | None) -> None:
        self.lose(
            "read_errors",
            "the container could not be read on without a break",
            at=self._time_of(packet),
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
