"""A recording opened for analysis: its streams chosen, its clock fixed, its limits checked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain

from pipeline.clock import milliseconds
from pipeline.errors import RecordingRefused
from pipeline.media.ahead import Beat, ahead
from pipeline.media.appearance import Appearance
from pipeline.media.audio import AudioPlacer
from pipeline.media.bounds import check_container, check_scan, check_streams
from pipeline.media.container import check_file, is_encrypted
from pipeline.media.data_chunk import find_misdeclared
from pipeline.media.decode import PictureTimes, look_at_times, pictures
from pipeline.media.joined import find_head_behind
from pipeline.media.mixdown import Mixdown
from pipeline.media.remarks import RemarkBook
from pipeline.media.rest import find_rest
from pipeline.media.scan import scan_packets
from pipeline.media.scanned import Scan
from pipeline.media.seconds import AudioSecond
from pipeline.media.sound import Sound, sounds
from pipeline.media.streams import choose
from pipeline.media.track import Track
from pipeline.media.tracks import Tracks
from pipeline.media.video import PictureSecond, first_of_each_second
from pipeline.records import MediaStream, Probe
from pipeline.settings import MediaLimits

SECONDS_AHEAD = 4
"""Of sound, decoded while a picture is waited for: 64 kB each."""

PICTURES_AHEAD = 1
"""Decoded while the one before it is fed: the largest takes a quarter of a gigabyte."""


@dataclass
class Source:
    """Both passes over one file, ready to be merged by second."""

    probe: Probe
    remarks: RemarkBook
    pass_remarks: tuple[RemarkBook, ...]
    """Of the two passes, which run in threads of their own; whole at their end."""
    mixdown: Mixdown
    audio: Iterator[AudioSecond]
    pictures: Iterator[PictureSecond]


class _Opening:
    """Opens one file; what it finds on the way stays here until the Source is built."""

    def __init__(
        self,
        path: str,
        start_s: int,
        limits: MediaLimits,
        pulse: Callable[[], None],
        *,
        audio_index: int | None,
        video_index: int | None,
    ) -> None:
        self._path = path
        self._wanted = {"audio_index": audio_index, "video_index": video_index}
        self._start_s = start_s
        self._limits = limits
        self._pulse = Beat(pulse)
        self._remarks = RemarkBook()
        self._heard = RemarkBook()
        self._seen = RemarkBook()
        self._scan = Scan()
        self._is_out_of_memory = False
        self._tracks = Tracks(path, limits)

    def open(self) -> Source:
        size = check_file(self._path, file_bytes_max=self._limits.file_bytes)
        with self._tracks.open_all(pulse=self._pulse) as container:
            check_container(container, self._limits)
            self._scan = scan_packets(container, start_s=self._start_s, pulse=self._pulse)
            check_streams(container, self._limits)
            choice = choose(container, self._scan, **self._wanted)
            duration_us, format_name = container.duration, container.format.name
            self._tracks.learn(container, self._scan)
            chosen = [s.index for s in (choice.audio, choice.video) if s is not None]
            video_index = None if choice.video is None else choice.video.index
            audio_index = None if choice.audio is None else choice.audio.index
        check_scan(self._scan, chosen, self._limits)
        times = self._picture_times(video_index)
        mixdown = Mixdown()
        audio_track = self._track(audio_index, remarks=self._heard, is_sound=True)
        heard = iter(()) if audio_track is None else sounds(audio_track, mixdown)
        first_sound = next(heard, None)
        if audio_track is not None:
            self._is_out_of_memory |= audio_track.is_out_of_memory
        self._check_decodable(choice.streams, first_sound, times)
        origin = _origin(self._scan.start_us, first_sound, times)
        if audio_track is not None:
            audio_track.origin = origin
        probe = Probe(
            format=format_name,
            size_bytes=size,
            origin_ms=milliseconds(origin),
            declared_duration_ms=max(duration_us // 1000, 0) if duration_us else None,
            packet_end_ms=self._packet_end_ms(chosen, origin),
            streams=choice.streams,
        )
        self._note_resets(origin)
        self._note_cut()
        self._note_rest(size)
        placer = AudioPlacer(self._heard, mixdown, is_alone=times.first is None)
        return Source(
            probe=probe,
            remarks=self._remarks,
            pass_remarks=(self._heard, self._seen),
            mixdown=mixdown,
            audio=ahead(
                self._audio(first_sound, heard, origin, placer),
                depth=SECONDS_AHEAD,
                beat=self._pulse,
            ),
            pictures=ahead(
                self._pictures(video_index, times, origin), depth=PICTURES_AHEAD, beat=self._pulse
            ),
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
        self,
        index: int | None,
        *,
        first_packet: int = 0,
        remarks: RemarkBook,
        is_sound: bool = False,
        may_skip: bool = False,
    ) -> Track | None:
        if index is None:
            return None
        container, stream = self._tracks.open(index, is_sound=is_sound, is_strict=may_skip)
        track = Track(
            container,
            stream,
            self._scan.streams[index],
            first_packet=first_packet,
            remarks=remarks,
            pulse=self._pulse,
            fresh_decoder=None if is_sound else partial(self._tracks.decoder, index),
            may_skip=may_skip,
        )
        track.pixels_max = self._limits.frame_pixels
        return track

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

    def _note_cut(self) -> None:
        found = find_misdeclared(self._path)
        if found is not None and found.declared_s is not None:
            self._remarks.note(
                "audio_cut_off",
                f"the file says that it has {float(found.declared_s):.3f} s of sound, and breaks "
                "off before",
                start_ms=milliseconds(found.whole_s),
            )

    def _note_rest(self, size: int) -> None:
        at = find_rest(self._path)
        if at is None:
            at = find_head_behind(self._path, self._scan.last_at)
        if at is not None:
            self._remarks.note(
                "file_goes_on",
                f"another recording begins at byte {at:,} of the file's {size:,} and is not read; "
                "give it as a file of its own",
            )

    def _audio(
        self, first: Sound | None, rest: Iterator[Sound], origin: Fraction, placer: AudioPlacer
    ) -> Generator[AudioSecond, None, None]:
        if first is None:
            return
        for sound in chain([first], rest):
            start = None if sound.start is None else sound.start - origin
            yield from placer.place(replace(sound, start=start))
        yield from placer.finish()

    def _pictures(
        self, index: int | None, times: PictureTimes, origin: Fraction
    ) -> Generator[PictureSecond, None, None]:
        if index is None or times.first is None:
            return
        first_packet = self._scan.streams[index].key_before_start if self._start_s else 0
        may_skip = not (times.is_by_decode_order or times.is_interlaced)
        track = self._track(
            index,
            first_packet=first_packet,
            remarks=self._seen,
            may_skip=may_skip and not self._scan.streams[index].corrupt,
        )
        assert track is not None
        track.origin = origin
        found = pictures(
            track,
            times,
            appearance=Appearance(track.video),
            edge_px=self._limits.edge_px,
            remarks=self._seen,
        )
        yield from first_of_each_second(found, is_end_damaged=track.take_damage)
        track.close()


def open_source(
    path: str,
    *,
    start_s: int,
    limits: MediaLimits,
    pulse: Callable[[], None],
    audio_index: int | None = None,
    video_index: int | None = None,
) -> Source:
    """Open a recording; the streams are chosen here where none is named.

    Raises RecordingRefused with a reason a person can act on.
    """
    opening = _Opening(
        path, start_s, limits, pulse, audio_index=audio_index, video_index=video_index
    )
    return opening.open()


def _origin(
    container_start: int | None, first_sound: Sound | None, times: PictureTimes
) -> Fraction:
    """Rule 5: the earliest of the container's start and the first decoded times."""
    candidates = [times.first, first_sound.start if first_sound is not None else None]
    if container_start is not None:
        candidates.append(Fraction(container_start, 1_000_000))
    known = [time for time in candidates if time is not None]
    return min(known, default=Fraction(0))
