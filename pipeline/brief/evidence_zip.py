"""A brief with all it stands on in one ZIP that opens offline."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO

from pipeline.brief import wording
from pipeline.brief.document import Brief
from pipeline.brief.render_csv import to_csv
from pipeline.brief.render_docx import to_docx
from pipeline.brief.render_html import to_html
from pipeline.brief.render_json import sha256, to_json
from pipeline.brief.render_markdown import to_markdown
from pipeline.brief.render_pdf import to_pdf
from pipeline.brief.render_srt import to_srt
from pipeline.brief.render_vtt import to_vtt
from pipeline.brief.render_xlsx import to_xlsx
from pipeline.brief.zipped import Archive

FORM = "omnai.evidence/1"
"""Name and version of the manifest's form."""

RECORDING_BYTES_MAX = 256 * 1024 * 1024
"""A longer recording would make a file that no mail and few browsers take."""

# What players know a recording by; a name's other endings are not kept.
_SUFFIXES = frozenset(
    {
        *(".aac", ".aif", ".aiff", ".flac", ".m4a", ".mka", ".mp3", ".oga", ".ogg", ".opus"),
        *(".wav", ".wma"),
        *(".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ogv"),
        *(".ts", ".webm", ".wmv"),
    }
)
_OTHER_SUFFIX = ".media"

INCLUDED = "included"
NOT_KEPT = "not_kept"
TOO_LARGE = "too_large"


@dataclass(frozen=True, kw_only=True)
class KeptRecording:
    """A recording whose bytes are still stored."""

    size_bytes: int
    read: Callable[[], Iterator[bytes]]
    """Opens it, then gives its bytes piece by piece; has `close`, where it is a file's."""


def write_zip(
    brief: Brief,
    stream: BinaryIO,
    *,
    frames: tuple[str, ...],
    frame_bytes: Callable[[str], bytes],
    recording: KeptRecording | None,
) -> None:
    """Write the archive to a seekable stream; the recording is copied piece by piece.

    `frames` are the digests of the frames that the brief shows. Lets OSError through, and what
    reading the recording raises.
    """
    with ExitStack() as opened:
        kept, state = _open(recording, opened)
        href = None if kept is None else recording_name(brief)
        archive = opened.enter_context(Archive(stream))
        archive.add("README.txt", wording.ZIP_README.encode())
        for name, content in _documents(brief, href, frame_bytes):
            archive.add(name, content)
        for frame in frames:
            archive.add(frame_name(frame), frame_bytes(frame))
        if kept is not None and href is not None:
            pieces, size_bytes = kept
            archive.add_parts(href, pieces, size_bytes=size_bytes)
        archive.add("manifest.json", _manifest(brief, archive, state, href))


def recording_name(brief: Brief) -> str:
    """Ours but for a known ending: nobody's name becomes a path."""
    suffix = PurePath(brief.header.filename).suffix.lower()
    return "recording" + (suffix if suffix in _SUFFIXES else _OTHER_SUFFIX)


def frame_name(frame_sha256: str) -> str:
    return f"frames/{frame_sha256}.jpg"


def _documents(
    brief: Brief, href: str | None, frame_bytes: Callable[[str], bytes]
) -> Iterator[tuple[str, bytes]]:
    """One at a time, so that no two are held at once."""
    yield "brief.html", to_html(brief, recording_href=href, frame_bytes=frame_bytes).encode()
    yield "brief.pdf", to_pdf(brief, recording_href=href, frame_bytes=frame_bytes)
    yield "brief.docx", to_docx(brief, recording_href=href, frame_bytes=frame_bytes)
    yield "brief.md", to_markdown(brief, recording_href=href, frame_href=frame_name).encode()
    yield "brief.json", to_json(brief)
    yield "findings.csv", to_csv(brief)
    yield "findings.xlsx", to_xlsx(brief)
    yield "recording.vtt", to_vtt(brief)
    yield "recording.srt", to_srt(brief)


def _open(
    recording: KeptRecording | None, opened: ExitStack
) -> tuple[tuple[Iterator[bytes], int] | None, str]:
    """The open recording and its size, and why there is none; an open one cannot vanish."""
    if recording is None:
        return None, NOT_KEPT
    if recording.size_bytes > RECORDING_BYTES_MAX:
        return None, TOO_LARGE
    pieces = recording.read()
    opened.callback(getattr(pieces, "close", lambda: None))
    return (pieces, recording.size_bytes), INCLUDED


def _manifest(brief: Brief, archive: Archive, state: str, href: str | None) -> bytes:
    header = brief.header
    manifest = {
        "form": FORM,
        "job_id": brief.provenance.job_id,
        "brief": {"form": brief.schema, "sha256": sha256(brief)},
        "recording": {
            "state": state,
            "text": wording.RECORDINGS[state].format(most=f"{RECORDING_BYTES_MAX:,}"),
            "name": href,
            "sha256": header.recording_sha256,
            "size_bytes": header.recording_size_bytes,
        },
        "files": [
            {"name": entry.name, "sha256": entry.sha256, "size_bytes": entry.size_bytes}
            for entry in archive.entries
        ],
    }
    return (json.dumps(manifest, indent=1, ensure_ascii=True, sort_keys=True) + "\n").encode()
