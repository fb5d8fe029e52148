"""A recording opened for analysis: its streams chosen, its clock fixed, its limits checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import av

from pipeline.clock import milliseconds
from pipeline.errors import RecordingRefused
from pipeline.media.audio import AudioPlacer, AudioSecond, Sound
from pipeline.media.container import check_file, is_encrypted, open_container
from pipeline.media.decode import (
    THREADS,
    PictureTimes,
    Track,
    look_at_times,
    pictures,
    sounds,
)
from pipeline.media.mixdown import Mixdown
from pipeline.media.picture import pixel_aspect
from pipeline.media.remarks import RemarkBook
from pipeline.media.scan import Scan, scan_packets
from pipeline.media.streams import choose
from pipeline.media.video import PictureSecond, first_of_each_second
from pipeline.records import MediaStream, Probe
from pipeline.settings import MediaLimits

KEY_MARGIN_US = 2_000_000
"""Decoding begins at a key picture at least this long before the wanted start: it is presented
later than the decode time that the scan knows, by the reordering delay."""


@dataclass
class Source:
    """Both passes over one file, ready to be merged by second."""

    probe: Probe
    remarks: RemarkBook
    mixdown: Mixdown
    audio: Iterator[AudioSecond]
    pictures: Iterator[PictureSecond]


class _Opening:
    """Opens one file; what it finds on the way stays here until the Source is built."""

    def __init__(
        self, path: str, start_s: int, limits: MediaLimits, pulse: Callable[[], None]
    ) -> None:
        self._path = path
        self._start_s = start_s
        self._limits = limits
        self._pulse = pulse
        self._remarks = RemarkBook()
        self._scan = Scan()
        self._is_out_of_memory = False

    def open(self) -> Source:
        size = check_file(self._path, file_bytes_max=self._limits.file_bytes)
        with open_container(self._path) as container:
            self._check_streams(container)
            start = container.start_time or 0
            self._scan = scan_packets(
                container,
                start_us=start + self._start_s * 1_000_000 - KEY_MARGIN_US,
                pulse=self._pulse,
            )
            choice = choose(container, self._scan)
            container_start = container.start_time
            duration_us = container.duration
            format_name = container.format.name
            chosen = [s.index for s in (choice.audio, choice.video) if s is not None]
            video_index = None if choice.video is None else choice.video.index
            audio_index = None if choice.audio is None else choice.audio.index
        self._check_times(chosen)
        times = self._picture_times(video_index)
        mixdown = Mixdown()
        audio_track = self._track(audio_index)
        heard = iter(()) if audio_track is None else sounds(audio_track, mixdown)
        first_sound = next(heard, None)
        if audio_track is not None:
            self._is_out_of_memory |= audio_track.is_out_of_memory
        self._check_decodable(choice.streams, first_sound, times)
        origin = _origin(container_start, first_sound, times)
        if audio_track is not None:
            audio_track.origin = origin
        probe = Probe(
            format=format_name,
            size_bytes=size,
            origin_ms=milliseconds(origin),
            declared_duration_ms=None if duration_us is None else max(duration_us // 1000, 0),
            packet_end_ms=self._packet_end_ms(chosen, origin),
            streams=choice.streams,
        )
        self._note_resets(origin)
        return Source(
            probe=probe,
            remarks=self._remarks,
            mixdown=mixdown,
            audio=self._audio(first_sound, heard, origin),
            pictures=self._pictures(video_index, times, origin),
        )

    def _check_streams(self, container: av.container.InputContainer) -> None:
        if len(container.streams) > self._limits.streams:
            raise RecordingRefused(
                "too_many_streams",
                f"it has {len(container.streams)} streams; at most {self._limits.streams}",
            )
        if not container.streams.audio and not container.streams.video:
            raise RecordingRefused(
                "no_audio_or_video",
                "it has neither sound nor pictures, so there is nothing to watch",
            )
        for stream in container.streams.video:
            width, height = stream.codec_context.width, stream.codec_context.height
            if max(width, height) > self._limits.edge_px or (
                width * height > self._limits.frame_pixels
            ):
                raise RecordingRefused(
                    "picture_too_large",
                    f"its pictures have {width}×{height} pixels; at most {self._limits.edge_px} a "
                    f"side and {self._limits.frame_pixels:,} in all are accepted",
                )

    def _check_times(self, chosen: list[int]) -> None:
        span = self._scan.span_us(chosen)
        if span is not None and span[1] - span[0] > self._limits.span_s * 1_000_000:
            raise RecordingRefused(
                "span_too_long",
                f"its time stamps span {(span[1] - span[0]) // 3_600_000_000:,} hours; at most "
                f"{self._limits.span_s // 3600} are accepted",
            )
        content = self._scan.content_us(chosen)
        if content > self._limits.duration_s * 1_000_000:
            raise RecordingRefused(
                "too_long",
                f"it has {content / 3_600_000_000:.1f} hours of content; at most "
                f"{self._limits.duration_s / 3600:g} are accepted",
            )

    def _check_decodable(
        self, streams: tuple[MediaStream, ...], first_sound: Sound | None, times: PictureTimes
    ) -> None:
        if first_sound is None and times.first is None:
            if is_encrypted(self._path):
                raise RecordingRefused(
                    "protected",
                    "the recording is protected (DRM); only its owner's player can read it",
                )
            if self._is_out_of_memory:
                raise RecordingRefused("memory_limit", "decoding it needs more memory than allowed")
            raise RecordingRefused(
                "nothing_decodable",
                "not a single second of sound or picture in it could be decoded; "
                + "; ".join(
                    f"stream {s.index} ({s.codec or s.kind}): {s.reason}" for s in streams[:8]
                ),
            )
        for stream in streams:
            if stream.reason == "declared, but without any packet":
                self._remarks.note(
                    f"{stream.kind}_empty", f"a declared {stream.kind} stream has no packets"
                )
        if any(s.is_chosen and s.kind == "video" for s in streams) and times.first is None:
            self._remarks.note("video_undecodable", "no picture could be decoded")
            if self._is_out_of_memory:
                self._remarks.note(
                    "video_out_of_memory", "pictures need more memory to decode than is allowed"
                )
        if any(s.is_chosen and s.kind == "audio" for s in streams) and first_sound is None:
            self._remarks.note("audio_undecodable", "no sound could be decoded")
        if times.is_by_decode_order:
            self._remarks.note(
                "picture_times_estimated", "pictures carry decode times only; theirs are estimated"
            )

    def _picture_times(self, index: int | None) -> PictureTimes:
        """From a container of its own, so that the pass that counts starts clean."""
        if index is None:
            return PictureTimes(is_by_decode_order=False, first=None)
        track = self._track(index, remarks=RemarkBook())
        assert track is not None
        try:
            return look_at_times(track)
        finally:
            self._is_out_of_memory |= track.is_out_of_memory
            track.close()

    def _track(
        self, index: int | None, *, first_packet: int = 0, remarks: RemarkBook | None = None
    ) -> Track | None:
        if index is None:
            return None
        container = open_container(self._path)
        stream: Any = container.streams[index]
        if stream.type == "video":
            stream.thread_type = "AUTO"
            stream.thread_count = THREADS
            stream.codec_context.options = {"max_pixels": str(self._limits.frame_pixels)}
        return Track(
            container,
            stream,
            self._scan.streams[index],
            first_packet=first_packet,
            remarks=self._remarks if remarks is None else remarks,
            pulse=self._pulse,
        )

    def _packet_end_ms(self, chosen: list[int], origin: Fraction) -> int | None:
        span = self._scan.span_us(chosen)
        if span is None:
            return None
        return max(milliseconds(Fraction(span[1], 1_000_000) - origin), 0)

    def _note_resets(self, origin: Fraction) -> None:
        for before_us, after_us in self._scan.resets:
            before_ms = milliseconds(Fraction(before_us, 1_000_000) - origin)
            self._remarks.note(
                "clock_reset",
                f"the file's clock jumped back from {before_us / 1e6:.3f} s to "
                f"{after_us / 1e6:.3f} s; source time goes on",
                start_ms=before_ms,
            )

    def _audio(
        self, first: Sound | None, rest: Iterator[Sound], origin: Fraction
    ) -> Iterator[AudioSecond]:
        if first is None:
            return
        placer = AudioPlacer(self._remarks)
        for sound in chain([first], rest):
            start = None if sound.start is None else sound.start - origin
            yield from placer.place(
                Sound(start=start, samples=sound.samples, rate_hz=sound.rate_hz)
            )
        yield from placer.finish()

    def _pictures(
        self, index: int | None, times: PictureTimes, origin: Fraction
    ) -> Iterator[PictureSecond]:
        if index is None or times.first is None:
            return
        first_packet = self._scan.streams[index].key_before_start if self._start_s else 0
        track = self._track(index, first_packet=first_packet)
        assert track is not None
        track.origin = origin
        track.may_skip = not (times.is_by_decode_order or times.is_interlaced)
        found = pictures(
            track,
            times,
            aspect=pixel_aspect(track.video),
            edge_px=self._limits.edge_px,
            remarks=self._remarks,
        )
        yield from first_of_each_second(found, is_end_damaged=track.take_damage)
        track.close()


def open_source(
    path: str, *, start_s: int, limits: MediaLimits, pulse: Callable[[], None]
) -> Source:
    """Open a recording. Raises RecordingRefused with a reason a person can act on."""
    return _Opening(path, start_s, limits, pulse).open()


def _origin(
    container_start: int | None, first_sound: Sound | None, times: PictureTimes
) -> Fraction:
    """Rule 5: the earliest of the container's start and the first decoded times."""
    candidates = [times.first, first_sound.start if first_sound is not None else None]
    if container_start is not None:
        candidates.append(Fraction(container_start, 1_000_000))
    known = [time for time in candidates if time is not None]
    return min(known, default=Fraction(0))
