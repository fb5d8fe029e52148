"""The findings as SubRip, for players that read nothing newer."""

from __future__ import annotations

import re
from dataclasses import replace

from pipeline.brief.cues import Cue, cues
from pipeline.brief.document import Brief

APART_MIN_MS = 2_000
"""Cues that begin closer than this to the one before are shown with it."""

# The format has no escapes: a space that can be seen keeps what a player would take for a tag, an
# override or a time from being one.
_TAG = re.compile(r"([<{&])(?=[A-Za-z/!?\\#])")
_ARROW = re.compile("-(?=->)")


def to_srt(brief: Brief) -> bytes:
    """One cue at a time, since many players show no two."""
    blocks = (
        "\n".join([str(number), f"{_time(cue.start_ms)} --> {_time(cue.end_ms)}", *cue.lines])
        for number, cue in enumerate(_one_by_one(cues(brief)), start=1)
    )
    return "".join(f"{block}\n\n" for block in blocks).replace("\n", "\r\n").encode()


def _one_by_one(sorted_cues: list[Cue]) -> list[Cue]:
    shown: list[Cue] = []
    for cue in sorted_cues:
        inert = replace(cue, lines=tuple(map(_inert, cue.lines)))
        before = shown[-1] if shown else None
        if before is None or cue.start_ms >= before.end_ms:
            shown.append(inert)
        elif cue.start_ms - before.start_ms < APART_MIN_MS:
            shown[-1] = replace(
                before,
                end_ms=max(before.end_ms, cue.end_ms),
                lines=(*before.lines, *inert.lines),
            )
        else:
            shown[-1] = replace(before, end_ms=cue.start_ms)
            shown.append(inert)
    return shown


def _inert(text: str) -> str:
    return _ARROW.sub("- ", _TAG.sub(r"\1 ", text))


def _time(ms: int) -> str:
    second = ms // 1000
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d},{ms % 1000:03d}"
