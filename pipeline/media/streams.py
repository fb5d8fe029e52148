"""Which streams are fed, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from av.stream import Disposition

from pipeline.errors import RecordingRefused
from pipeline.media.scanned import Scan
from pipeline.records import MediaStream

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

METADATA_CHARS_MAX = 200
"""Of a title or language in the file; the rest is cut and marked."""

SAMPLE_RATE_HZ_MAX = 1_536_000
"""Twice the highest rate that sound is recorded at. A file can say two billion, and the filter that
brings it to 16 kHz grows with it: half a minute and gigabytes at seven hundred million."""

STILL_CODECS = frozenset({"mjpeg", "png", "bmp", "gif", "webp", "tiff"})
"""Codecs that cover pictures come in."""

BESIDE = Disposition.comment | Disposition.descriptions
"""Sound that speaks about the recording, which FFmpeg takes as soon as any other."""

CHOSEN_BY_CALLER = "chosen by the caller"

AnyStream = TypeVar("AnyStream", bound="Stream")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The streams whose seconds are fed."""

    audio: AudioStream | None
    video: VideoStream | None
    streams: tuple[MediaStream, ...]
    """Every stream of the file with the reason for or against it."""


def choose(
    container: InputContainer,
    scan: Scan,
    *,
    audio_index: int | None = None,
    video_index: int | None = None,
) -> Choice:
    """One picture and one sound stream: those the caller wants, else the default ones with packets.

    Cover pictures are no video. Among videos the default comes first, then the larger; audio is
    FFmpeg's best for that video (same program, default, not for the impaired), but no commentary
    where another is as much the default. Raises RecordingRefused for a wanted stream that cannot be
    fed.
    """
    reasons: dict[int, str] = {}
    usable: set[int] = set()
    video = _choose_video(container, scan, reasons, usable, wanted=video_index)
    audio = _choose_audio(container, scan, video, reasons, usable, wanted=audio_index)
    chosen = {stream.index for stream in (audio, video) if stream is not None}
    streams = tuple(
        MediaStream(
            index=stream.index,
            kind=stream.type or "unknown",
            codec=_codec(stream),
            is_chosen=stream.index in chosen,
            reason=reasons.get(stream.index, "not audio or video"),
            details=_details(stream),
            is_usable=stream.index in usable,
        )
        for stream in container.streams
    )
    return Choice(audio=audio, video=video, streams=streams)


def _choose_video(
    container: InputContainer,
    scan: Scan,
    reasons: dict[int, str],
    usable: set[int],
    *,
    wanted: int | None,
) -> VideoStream | None:
    candidates = []
    for stream in container.streams.video:
        why_not = _unusable(stream, scan) or _attached(stream)
        if why_not is None:
            usable.add(stream.index)
            why_not = _lone_still(stream, container, scan)
        if why_not:
            reasons[stream.index] = why_not
        else:
            candidates.append(stream)
    if wanted is not None:
        chosen = _wanted(container.streams.video, wanted, usable, "video")
        _explain(reasons, candidates, chosen)
        return chosen
    if not candidates:
        return None
    best = max(candidates, key=lambda stream: (_is_default(stream), _area(stream), -stream.index))
    for stream in candidates:
        reasons[stream.index] = f"another video stream, {best.index}, was chosen"
    reasons[best.index] = (
        "the only video stream"
        if len(candidates) == 1
        else "marked as default"
        if _is_default(best)
        else "the largest picture"
    )
    return best


def _choose_audio(
    container: InputContainer,
    scan: Scan,
    video: VideoStream | None,
    reasons: dict[int, str],
    usable: set[int],
    *,
    wanted: int | None,
) -> AudioStream | None:
    candidates = []
    for stream in container.streams.audio:
        why_not = _unusable(stream, scan)
        if why_not:
            reasons[stream.index] = why_not
        else:
            candidates.append(stream)
    of_audio = {stream.index for stream in candidates}
    usable |= of_audio
    if wanted is not None:
        chosen = _wanted(container.streams.audio, wanted, of_audio, "audio")
        _explain(reasons, candidates, chosen)
        return chosen
    if not candidates:
        return None
    found: Any = container.streams.best("audio", related=video)
    best = found if found in candidates else candidates[0]
    if best.disposition & BESIDE:
        mains = [s for s in candidates if not s.disposition & BESIDE]
        mains = [s for s in mains if _is_default(s) or not _is_default(best)]
        best = max(mains, key=_is_default, default=best)
    for stream in candidates:
        reasons[stream.index] = f"another audio stream, {best.index}, was chosen"
    reasons[best.index] = (
        "the only audio stream"
        if len(candidates) == 1
        else "marked as default"
        if _is_default(best)
        else "the first that belongs to the picture"
    )
    return best


def _wanted(
    streams: Iterable[AnyStream], wanted: int, usable: Collection[int], kind: str
) -> AnyStream:
    for stream in streams:
        if stream.index == wanted and wanted in usable:
            return stream
    accepted = ", ".join(map(str, sorted(usable))) or "none; leave the choice to OmnAI"
    raise RecordingRefused(
        "stream_unknown",
        f"it has no {kind} stream {wanted} that can be fed; accepted: {accepted}",
    )


def _explain(reasons: dict[int, str], candidates: Iterable[Stream], chosen: Stream) -> None:
    for stream in candidates:
        reasons[stream.index] = f"another {stream.type} stream, {chosen.index}, was chosen"
    reasons[chosen.index] = CHOSEN_BY_CALLER


def _unusable(stream: Stream, scan: Scan) -> str | None:
    context: Any = stream.codec_context
    if context is None:
        return "no decoder for it"
    if stream.type == "audio" and context.sample_rate > SAMPLE_RATE_HZ_MAX:
        return f"a sample rate of {context.sample_rate:,} Hz; at most {SAMPLE_RATE_HZ_MAX:,}"
    found = scan.streams.get(stream.index)
    if found is None or found.packets == 0:
        return "declared, but without any packet"
    return None


def _attached(stream: VideoStream) -> str | None:
    return "a cover picture" if stream.disposition & Disposition.attached_pic else None


def _lone_still(stream: VideoStream, container: InputContainer, scan: Scan) -> str | None:
    """A guess, which the caller may overrule."""
    is_lone = scan.streams[stream.index].packets <= 1 and _codec(stream) in STILL_CODECS
    has_sound = any(
        scan.streams[audio.index].packets > 2
        for audio in container.streams.audio
        if audio.index in scan.streams
    )
    return "a single still beside sound: a cover picture" if is_lone and has_sound else None


def _is_default(stream: Stream) -> bool:
    return bool(stream.disposition & Disposition.default)


def _area(stream: VideoStream) -> int:
    return (stream.codec_context.width or 0) * (stream.codec_context.height or 0)


def _codec(stream: Stream) -> str | None:
    context: Any = stream.codec_context
    return None if context is None else str(context.name)


def _details(stream: Stream) -> dict[str, str | int | None]:
    context: Any = stream.codec_context
    details: dict[str, str | int | None] = {
        key: clip(stream.metadata[key]) for key in ("language", "title") if key in stream.metadata
    }
    if context is not None and stream.type == "video":
        details |= {"width_px": context.width, "height_px": context.height}
    if context is not None and stream.type == "audio":
        details |= {"sample_rate_hz": context.sample_rate, "channels": context.channels}
    return details


def clip(text: str) -> str:
    """Metadata as text that any encoder takes, at most METADATA_CHARS_MAX characters."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= METADATA_CHARS_MAX else clean[: METADATA_CHARS_MAX - 1] + "…"
