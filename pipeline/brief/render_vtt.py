"""The findings as WebVTT, which a browser and most players show over the recording."""

from __future__ import annotations

from pipeline.brief import wording
from pipeline.brief.cues import Cue, cues
from pipeline.brief.document import Brief
from pipeline.brief.render_json import sha256
from pipeline.brief.visible import visible

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def to_vtt(brief: Brief) -> bytes:
    """Cues may overlap, as the format allows; no text opens a tag, an entity or a cue."""
    notes = [
        _note(visible(brief.header.name)),
        _note(f"SHA-256 of the brief: {sha256(brief)}"),
        _note(visible(brief.status.headline)),
        *([_note(brief.header.banner)] if brief.header.banner else []),
        *([] if brief.findings else [_note(f"{wording.NO_FINDINGS} {wording.NO_FINDING}")]),
    ]
    blocks = ["WEBVTT", *notes, *map(_block, cues(brief))]
    return ("\n\n".join(blocks) + "\n").encode()


def _note(text: str) -> str:
    return f"NOTE {_escaped(' '.join(text.split()))}"


def _block(cue: Cue) -> str:
    times = f"{_time(cue.start_ms)} --> {_time(cue.end_ms)}"
    return "\n".join([cue.name, times, *map(_escaped, cue.lines)])


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _time(ms: int) -> str:
    second = ms // 1000
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{ms % 1000:03d}"
