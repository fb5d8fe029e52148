"""What a container may hold; what holds more is refused before anything of it is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeline.errors import RecordingRefused

if TYPE_CHECKING:
    from av.container import InputContainer

    from pipeline.media.scanned import Scan
    from pipeline.settings import MediaLimits

CHAPTER_CHARS = 64
"""What a chapter counts without its title: its number and times."""


def check_container(container: InputContainer, limits: MediaLimits) -> None:
    """Streams, metadata and picture sizes as the file declares them. Raises RecordingRefused."""
    _check_metadata(container, limits)
    check_streams(container, limits)
    if not container.streams.audio and not container.streams.video:
        raise RecordingRefused(
            "no_audio_or_video", "it has neither sound nor pictures, so there is nothing to watch"
        )
    for stream in container.streams.video:
        context: Any = stream.codec_context
        if context is None:
            continue  # of a codec that nobody knows
        width, height = context.width, context.height
        if is_too_large(width, height, limits):
            raise RecordingRefused(
                "picture_too_large",
                f"its pictures have {width}×{height} pixels; at most {limits.edge_px} a "
                f"side and {limits.frame_pixels:,} in all are accepted",
            )


def check_streams(container: InputContainer, limits: MediaLimits) -> None:
    """Again after the scan: transport streams declare streams as they go on."""
    if len(container.streams) > limits.streams:
        raise RecordingRefused(
            "too_many_streams",
            f"it has {len(container.streams)} streams; at most {limits.streams} are accepted",
        )


def is_too_large(width_px: int, height_px: int, limits: MediaLimits) -> bool:
    """Whether a picture of this size is not decoded."""
    return max(width_px, height_px) > limits.edge_px or width_px * height_px > limits.frame_pixels


def check_scan(scan: Scan, chosen: list[int], limits: MediaLimits) -> None:
    """Length and rate of the chosen streams by their packets. Raises RecordingRefused."""
    span = scan.span_us(chosen)
    if span is not None and span[1] - span[0] > limits.span_s * 1_000_000:
        raise _too_wide((span[1] - span[0]) / 1_000_000, limits)
    content = scan.content_us(chosen)
    if content > limits.duration_s * 1_000_000:
        raise _too_long(content / 1_000_000, limits)
    for index in chosen:
        # A rate needs some time to be one: two packets a microsecond apart are none.
        seconds = max(scan.content_us([index]) / 1_000_000, 1.0)
        rate = scan.streams[index].packets / seconds
        if rate > limits.packets_per_s:
            raise RecordingRefused(
                "rate_too_high",
                f"stream {index} has {rate:,.0f} packets a second; at most "
                f"{limits.packets_per_s:,} are accepted",
            )


def _too_wide(seconds: float, limits: MediaLimits) -> RecordingRefused:
    return RecordingRefused(
        "span_too_long",
        f"its time stamps span {_hours(seconds)} hours; "
        f"at most {_hours(limits.span_s)} are accepted",
    )


def _too_long(seconds: float, limits: MediaLimits) -> RecordingRefused:
    return RecordingRefused(
        "too_long",
        f"it has {_hours(seconds)} hours of content; "
        f"at most {_hours(limits.duration_s)} are accepted",
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}".removesuffix(".0")


def _check_metadata(container: InputContainer, limits: MediaLimits) -> None:
    size = _chars(container.metadata)
    size += sum(_chars(stream.metadata) for stream in container.streams)
    chapters: list[Any] = container.chapters()
    size += sum(CHAPTER_CHARS + _chars(chapter["metadata"]) for chapter in chapters)
    if size > limits.metadata_chars:
        raise RecordingRefused(
            "metadata_too_large",
            f"it carries {size:,} characters of titles, comments and chapters; at most "
            f"{limits.metadata_chars:,} are accepted",
        )


def _chars(metadata: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in metadata.items())
