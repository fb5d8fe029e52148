"""Links into the recording, safe wherever the address came from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from pipeline.brief.document import Brief, Source
from pipeline.brief.figures import seconds
from pipeline.records import Origin

LEAD_MS = 5_000
"""A link starts this long before a text was said: the speaker came first, the engine answered."""

_SCHEMES = ("http://", "https://", "file://")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LOOSE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Parentheses and quotes are legal in an address but end a Markdown destination or an attribute.
_KEPT = "/?:@!$&*+,;=-._~%"


def play_interval(origin: Origin) -> tuple[int, int]:
    """The lead before it was said, never before what the engine could remember."""
    said = origin.generated_in
    start = max(said.start_ms - LEAD_MS, origin.available_from_ms)
    return min(start, said.start_ms), said.end_ms


def media_fragment(start_ms: int, end_ms: int) -> str:
    """W3C media fragment in seconds; an empty interval has no end, which the syntax forbids."""
    if end_ms <= start_ms:
        return f"t={seconds(start_ms)}"
    return f"t={seconds(start_ms)},{seconds(end_ms)}"


def safe_href(address: str) -> str:
    """Percent-encoded; any scheme but http, https and file becomes part of a relative path."""
    encoded = quote(
        _LOOSE_PERCENT.sub("%25", address), safe=_KEPT, encoding="utf-8", errors="replace"
    )
    if not encoded.lower().startswith(_SCHEMES) and _SCHEME.match(encoded):
        return "./" + encoded.replace(":", "%3A")
    return encoded


@dataclass(frozen=True, kw_only=True)
class Player:
    """A browser's player of the recording, for links that name a time of its own clock."""

    href: str | None
    """Where the recording lies; none where the reader has no address of it."""
    offset_ms: int
    """Where source time 0 lies on the player's clock."""

    def fragment(self, source: Source) -> str:
        play = source.play
        return media_fragment(play.start_ms + self.offset_ms, play.end_ms + self.offset_ms)

    def link(self, source: Source) -> str | None:
        return None if self.href is None else f"{safe_href(self.href)}#{self.fragment(source)}"


def player(brief: Brief, recording_href: str | None) -> Player:
    container = brief.provenance.container
    origin_ms = None if container is None else container.origin_ms
    return Player(href=recording_href, offset_ms=player_offset_ms(origin_ms))


def player_offset_ms(origin_ms: int | None) -> int:
    """Of a browser: it begins a file that starts late at the file's own start, not at zero."""
    return max(origin_ms or 0, 0)
