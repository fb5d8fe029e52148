"""Decoded sound in runs of frames whose times follow on, and what was lost between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from pipeline.media.mixdown import FLOAT, Mixdown
from pipeline.media.salvage import salvaged

if TYPE_CHECKING:
    import numpy.typing as npt
    from av.packet import Packet
    from av.stream import Stream

    from pipeline.media.track import Track

STORED_TIMES = frozenset({"mpegts", "mpeg", "aac"})
"""Formats whose sound is dated by the stored times only. FFmpeg dates the other frames of a PES
packet, and all of a bare AAC stream, by the rate that the stream began with (seen with 5 to 9)."""

LATE_RATES = frozenset({"mp1", "mp1float", "mp2", "mp2float", "mp3", "mp3float"})
"""Decoders that give the first frame after a change of rate the old one (FFmpeg sets it after)."""

RUN_S = Fraction(1, 2)
"""Frames joined into one run: few enough calls, little memory."""

ROUNDING_S = Fraction(3, 2000)
"""Time stamps in milliseconds stray by up to 1 ms from each other; a further step ends a run."""

STEADY_S = 0.1
"""A run this long tells where its sound lies, whatever one time stamp says."""


@dataclass(frozen=True, kw_only=True)
class Sound:
    """Decoded samples of frames that follow on."""

    start: Fraction | None
    """Time in seconds of the first sample; None where the file gives none."""
    samples: FLOAT
    """Shape (channels, samples)."""
    rate_hz: int
    weights: FLOAT
    """Of the channels in mono."""
    settled: Fraction = Fraction(0)
    """By how much the frames' times on average say later than `start`."""
    lost_samples: int = 0
    """How many samples the packets before this that gave nothing would have had."""
    is_new_part: bool = False
    """Whether the file's clock was set anew here."""

    @property
    def duration_s(self) -> float:
        """For comparing only; places are counted in samples."""
        return self.samples.shape[1] / self.rate_hz

    @property
    def is_steady(self) -> bool:
        """Whether it is long enough to be believed."""
        return self.duration_s >= STEADY_S


class _Run:
    """The frames of one Sound while they are collected."""

    def __init__(self, mixdown: Mixdown, base: Fraction, *, is_first: bool) -> None:
        self._mixdown = mixdown
        self._base = base
        self._ticks_by, self._per_s = base.numerator, base.denominator
        self._is_first = is_first
        self._size_max = 0
        self._off_max = 0
        self.parts: list[npt.NDArray[Any]] = []
        self.size = 0
        self.rate_hz = 0
        self.weights: FLOAT | None = None
        self.lost_samples = 0
        self.is_new_part = False
        self._first_ticks: int | None = None
        self._before_first = 0
        """Samples without a time before the first one that has it."""
        self._off_sum = 0
        self._dated = 0

    def takes(self, ticks: int | None, rate_hz: int, weights: FLOAT) -> bool:
        """Whether a frame that begins at `ticks` follows on."""
        if not self.parts:
            return True
        if rate_hz != self.rate_hz or weights is not self.weights:
            return False
        if ticks is None:
            return self.size < 2 * self._size_max
        if self.size >= self._size_max:
            return False
        if self._first_ticks is None:
            return self._is_first
        return abs(self._off(ticks)) <= self._off_max

    def add(self, read: npt.NDArray[Any], ticks: int | None, rate_hz: int, weights: FLOAT) -> None:
        if not self.parts:
            self.rate_hz, self.weights = rate_hz, weights
            self._size_max = RUN_S.numerator * rate_hz // RUN_S.denominator
            self._off_max = ROUNDING_S.numerator * rate_hz * self._per_s // ROUNDING_S.denominator
        if ticks is not None:
            if self._first_ticks is None:
                self._first_ticks, self._before_first = ticks, self.size
            self._off_sum += self._off(ticks)
            self._dated += 1
        self.parts.append(read)
        self.size += read.shape[1]

    def is_hole_before(self, ticks: int | None) -> bool:
        """Whether a frame at `ticks` begins later than this run ends."""
        if ticks is None or self._first_ticks is None:
            return ticks is None
        return self._off(ticks) > self._off_max

    def end(self) -> Fraction | None:
        """Time of the last sample's end by the first one's time."""
        if self._first_ticks is None:
            return None
        return self._first_ticks * self._base + Fraction(
            self.size - self._before_first, self.rate_hz
        )

    def cut_padding(self, end: Fraction | None) -> None:
        """Leave out what the last frame has past an end that lies inside it.

        FFmpeg does so from 9 on. An end elsewhere is no end: headers lie.
        """
        reached = self.end()
        if end is None or reached is None:
            return
        padding = int((reached - end) * self.rate_hz)
        last = self.parts[-1]
        if 0 < padding < last.shape[1]:
            self.parts[-1] = last[:, :-padding]
            self.size -= padding

    def sound(self) -> Sound:
        joined = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts, axis=1)
        assert self.weights is not None
        start = None
        if self._first_ticks is not None:
            start = self._first_ticks * self._base - Fraction(self._before_first, self.rate_hz)
        return Sound(
            start=start,
            samples=self._mixdown.floats(joined),
            rate_hz=self.rate_hz,
            weights=self.weights,
            settled=Fraction(self._off_sum, max(self._dated, 1) * self.rate_hz * self._per_s),
            lost_samples=self.lost_samples,
            is_new_part=self.is_new_part,
        )

    def _off(self, ticks: int) -> int:
        """How far a frame's time is from where the run has it, in 1 / (rate · base) seconds."""
        assert self._first_ticks is not None
        after = (ticks - self._first_ticks) * self._ticks_by * self.rate_hz
        return after - (self.size - self._before_first) * self._per_s


class _Listener:
    """Joins frames to runs and keeps account of packets that gave nothing."""

    def __init__(self, track: Track, mixdown: Mixdown) -> None:
        self._track = track
        self._mixdown = mixdown
        self._base = track.time_base
        self._context: Any = track.context
        self._is_rate_late = self._context.name in LATE_RATES
        self._run = _Run(mixdown, self._base, is_first=True)
        self._frame_size = 0
        """Samples of the last frame."""
        self._failed = 0
        """Packets since the last frame that could not be decoded; each is already counted."""
        self._error: av.FFmpegError | None = None
        """The last of their errors."""
        self._mute = 0
        """Packets since the last frame that gave no sound without saying why."""
        self._is_new_part = False
        self._undated_s = 0.0
        """How much was heard while no frame had a time: such sound lies end to end."""

    def frames(
        self, packet: Packet[Stream] | None, frames: list[Any] | av.FFmpegError
    ) -> list[Any]:
        """Keep account of what one packet gave, and return its frames."""
        if packet is not None and packet.is_corrupt:
            self._reach_end()
            self._track.marked()
        if isinstance(frames, av.FFmpegError):
            self._fail(frames)
            return []
        if not frames and packet is not None and not _is_meant_mute(packet):
            self._mute += 1
        return frames

    def begin_part(self) -> None:
        """The file's clock is set anew before the next packet."""
        self._is_new_part = True

    def finish(self) -> Sound | None:
        """The last run."""
        self._note_mute(None)
        if not self._run.parts:
            return None
        self._run.cut_padding(self._track.declared_end)
        return self._run.sound()

    def take(self, frame: Any) -> Sound | None:
        """Take in one frame; returns the run before, where this one does not belong to it."""
        ticks = frame.pts
        rate_hz = self._context.sample_rate if self._is_rate_late else frame.sample_rate
        try:
            read = self._mixdown.read(frame)
        except av.FFmpegError as error:
            self._fail(error)
            return None
        if read.shape[1] == 0:
            return None
        weights = self._mixdown.weights
        lost = self._lost_before(ticks)
        ended = None
        if lost or self._is_new_part or not self._run.takes(ticks, rate_hz, weights):
            ended = self._run.sound() if self._run.parts else None
            self._run = _Run(self._mixdown, self._base, is_first=not self._frame_size)
            self._run.lost_samples, self._run.is_new_part = lost, self._is_new_part
            self._is_new_part = False
        self._run.add(read, ticks, rate_hz, weights)
        self._frame_size = read.shape[1]
        if ticks is None:
            self._undated_s += self._frame_size / rate_hz
        return ended

    def _fail(self, error: av.FFmpegError) -> None:
        if not self._failed:
            self._reach_end()
        self._failed += 1
        self._error = error
        self._track.undecoded(error)

    def _reach_end(self) -> None:
        end = self._run.end()
        if end is None and self._undated_s:
            end = self._track.origin + Fraction(self._undated_s)
        if end is not None:
            self._track.reached(end)

    def _lost_before(self, ticks: int | None) -> int:
        """Samples missing before a frame; decoders that only run behind have lost nothing."""
        packets, self._failed = self._failed, 0
        if self._error is not None and ticks is not None:
            self._track.undecoded(self._error, count=0, until=ticks * self._base)
        self._error = None
        if self._frame_size and self._mute and self._run.is_hole_before(ticks):
            packets += self._mute
            self._note_mute(ticks)
        self._mute = 0
        return packets * self._frame_size

    def _note_mute(self, ticks: int | None) -> None:
        if not self._mute or not self._frame_size:
            return
        until = None if ticks is None else ticks * self._base
        self._reach_end()
        self._track.lose("packets_damaged", "packets gave no sound", count=self._mute, until=until)


def sounds(track: Track, mixdown: Mixdown) -> Iterator[Sound]:
    """Every decodable sample, with container times."""
    listener = _Listener(track, mixdown)
    parts = [ordinal for ordinal, _ in track.found.offsets]
    for ordinal, (packet, frames) in salvaged(track):
        if parts and ordinal >= parts[0]:
            del parts[0]
            listener.begin_part()
        for frame in listener.frames(packet, frames):
            sound = listener.take(frame)
            if sound is not None:
                yield sound
    rest = listener.finish()
    if rest is not None:
        yield rest


def _is_meant_mute(packet: Packet[Stream]) -> bool:
    """Whether the file says itself that this packet's sound is not to be played."""
    return packet.is_discard or packet.size == 0 or packet.has_sidedata("skip_samples")
