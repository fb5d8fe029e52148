"""Opens one local file with one demuxer from the allow-list, or says why it cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import av.logging
from av.container import Flags

from pipeline.errors import RecordingRefused

if TYPE_CHECKING:
    from av.container import InputContainer

DEMUXERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,mpegts,mpeg,avi,asf,flv,ogg,mp3,wav,w64,flac,aac,aiff,"
    "caf,amr,ac3,eac3,gif"
)
"""Formats that read one file and nothing beside it; playlists, scripts and SDP are not among them.

A protocol list alone does not stop a playlist from opening other local files.
"""

ACCEPTED = (
    "MP4, MOV, M4A, 3GP, MKV, WebM, MPEG-TS, MPEG-PS, AVI, WMV/ASF, FLV, Ogg, MP3, WAV, FLAC, AAC, "
    "AIFF, CAF, AMR, AC-3 and animated GIF files"
)

PROBE_BYTES = 50_000_000
ANALYZE_US = 30_000_000
"""How far FFmpeg looks for streams: its 5 s miss an audio track that begins later in a capture."""

SNIFF_BYTES = 512

METADATA_BYTES = 4096
"""Of an FLV file, in which every writer puts how long it is, if it does."""

_FLV, _DURATION = b"FLV\x01", b"\0\x08duration"

BOXES_MAX = 100_000
"""Top-level boxes looked at; a fragmented day has 50,000."""

MOOV_BYTES_MAX = 64 * 1024 * 1024
"""Of an index, how much is searched for the mark of encryption."""


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """The top-level boxes of an ISO media file (MP4, MOV and kin)."""

    kinds: frozenset[bytes]
    is_cut: bool
    """Whether the last box is longer than the file."""
    moov: tuple[int, int] | None
    """Offset and length of the index."""


def open_container(
    path: str,
    *,
    is_fragment_cut: bool = False,
    has_stored_times_only: bool = False,
    view: Any = None,
) -> InputContainer:
    """Open `path` for reading. Raises RecordingRefused with a reason a person can act on.

    With `has_stored_times_only` a packet has a time where the file gives it one, and else none. A
    `view` is a file object over `path` that is read in its place.
    """
    options = {
        "format_whitelist": DEMUXERS,
        "protocol_whitelist": "file",
        "probesize": str(PROBE_BYTES),
        "analyzeduration": str(ANALYZE_US),
    }
    if is_fragment_cut or _is_timed_flv(path):
        options["seekable"] = "0"
    if has_stored_times_only:
        options["fflags"] = "+nofillin"
    try:
        # The prefix keeps `concat:`, `http:` and kin from being taken for a protocol.
        container = av.open(
            "file:" + os.path.abspath(path) if view is None else view,  # noqa: PTH100
            options=options,
            metadata_errors="replace",
        )
    except av.FFmpegError as error:
        if not is_fragment_cut and is_cut_fragmented(path):
            # Read forward only, FFmpeg does not insist on the fragment that breaks off at the end.
            return open_container(
                path,
                is_fragment_cut=True,
                has_stored_times_only=has_stored_times_only,
            )
        raise _refusal(path, error) from error
    has_none = not any(stream.type in ("audio", "video") for stream in container.streams)
    if has_none and (refused := _index_missing(path)) is not None:
        container.close()
        raise refused
    # Where a format has decode times only (AVI, ASF), a time made of them would look like one of
    # presentation, late by the reordering that a codec may have, and packets would be kept for it.
    made_up: Any = Flags.gen_pts
    container.flags &= ~made_up.value
    return container


def _is_timed_flv(path: str) -> bool:
    """Of the sound of FLV FFmpeg keeps an index, packet by packet, as long as it could seek by it;
    and it does seek, to the end, where the file does not say how long it is.
    """
    with Path(path).open("rb") as file:
        head = file.read(METADATA_BYTES)
    return head.startswith(_FLV) and _DURATION in head


def check_file(path: str, *, file_bytes_max: int) -> int:
    """The file's size. Raises RecordingRefused where it is not a readable, non-empty file."""
    file = Path(path)
    try:
        if not file.is_file():
            raise RecordingRefused("not_a_file", f"it is not a file; accepted are {ACCEPTED}")
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise RecordingRefused(
            "unreadable", f"the file cannot be read: {error.strerror or type(error).__name__}"
        ) from error
    if size == 0:
        raise RecordingRefused("empty_file", "the file is empty (0 bytes)")
    if size > file_bytes_max:
        raise RecordingRefused(
            "file_too_large",
            f"the file has {size:,} bytes; at most {file_bytes_max:,} are accepted",
        )
    return size


def is_cut_fragmented(path: str) -> bool:
    """Whether this is a fragmented MP4 whose last box breaks off, as after a crash."""
    boxes = read_boxes(path)
    return boxes is not None and boxes.is_cut and b"moof" in boxes.kinds


def is_encrypted(path: str) -> bool:
    """Whether an MP4 index declares protected sample entries (ISO/IEC 14496-12, 8.12)."""
    boxes = read_boxes(path)
    if boxes is None or boxes.moov is None:
        return False
    offset, length = boxes.moov
    with Path(path).open("rb") as file:
        file.seek(offset)
        index = file.read(min(length, MOOV_BYTES_MAX))
    return b"schm" in index and (b"encv" in index or b"enca" in index)


def read_boxes(path: str) -> Boxes | None:
    """The top-level boxes, or None where the file is not an ISO media file."""
    kinds: set[bytes] = set()
    moov = None
    is_cut = False
    size = Path(path).stat().st_size
    for kind, offset, length in walk_boxes(path, size):
        kinds.add(kind)
        is_cut = offset + length > size
        if kind == b"moov":
            moov = (offset, length)
    if not kinds & {b"ftyp", b"moov", b"mdat", b"moof"}:
        return None
    return Boxes(kinds=frozenset(kinds), is_cut=is_cut, moov=moov)


def walk_boxes(path: str, size: int) -> Iterator[tuple[bytes, int, int]]:
    offset = 0
    with Path(path).open("rb") as file:
        for _ in range(BOXES_MAX):
            file.seek(offset)
            head = file.read(16)
            if len(head) < 8 or not head[4:8].isascii():
                return
            length = int.from_bytes(head[:4], "big")
            if length == 1 and len(head) == 16:
                length = int.from_bytes(head[8:16], "big")
            elif length == 0:
                length = size - offset
            if length < 8:
                return
            yield head[4:8], offset, length
            offset += length
            if offset >= size:
                return


def _refusal(path: str, error: av.FFmpegError) -> RecordingRefused:
    with Path(path).open("rb") as file:
        head = file.read(SNIFF_BYTES)
    kind = _sniff(head)
    if kind is not None:
        return RecordingRefused(*kind)
    return _index_missing(path) or RecordingRefused(
        "not_media",
        f"it cannot be read as media ({type(error).__name__}); accepted are {ACCEPTED}",
    )


def _index_missing(path: str) -> RecordingRefused | None:
    boxes = read_boxes(path)
    if boxes is None or b"moof" in boxes.kinds:
        return None
    if boxes.moov is not None and sum(boxes.moov) <= Path(path).stat().st_size:
        return None
    return RecordingRefused(
        "index_missing",
        "the recording was not finished: its index (moov) is missing or breaks off; repair it "
        "with a recovery tool and an intact file from the same device, or export it again",
    )


_MAGIC: Mapping[bytes, str] = {
    b"PK\x03\x04": "a ZIP archive or Office document",
    b"%PDF": "a PDF document",
    b"\xff\xd8\xff": "a JPEG picture",
    b"\x89PNG": "a PNG picture",
    b"Rar!": "a RAR archive",
    b"\x1f\x8b": "a gzip archive",
}

_SCRIPTS = (b"#EXTM3U", b"ffconcat", b"v=0", b"<?xml", b"[playlist]", b"<smil", b"<MPD")


def _sniff(head: bytes) -> tuple[str, str] | None:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    lower = text[:64].lower()
    if lower.startswith((b"<!doctype html", b"<html")):
        return "web_page", "it is a web page, not a recording; the link gave an HTML page"
    if text.startswith(_SCRIPTS):
        return (
            "playlist",
            "it is a playlist or script that points at other files; give the recording itself",
        )
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return "not_media", f"it is {name}, not a recording; accepted are {ACCEPTED}"
    try:
        is_text = not set(head.decode("utf-8")) & set("\0\x01\x02\x03\x04\x05\x06\x07\x08")
    except UnicodeDecodeError:
        return None
    if is_text:
        return "not_media", f"it is a text file, not a recording; accepted are {ACCEPTED}"
    return None
