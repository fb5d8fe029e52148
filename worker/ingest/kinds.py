"""Whether what a link leads to can be a recording, told from its first bytes."""

from __future__ import annotations

import re

HEAD_BYTES = 1024
"""Every container shows itself as no text within these."""

_TEXT_BYTES = frozenset((*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\r\f\v"))

_XML = rb"\s*(?:<\?xml[^>]*>\s*)?"
_PAGE = re.compile(_XML + rb"<(?:!doctype\s+html|html|head|body)\b")
_PLAYLIST = re.compile(_XML + rb"(?:#extm3u|<mpd\b|ffconcat\b|\[playlist\]|v=0\s)")

_PAGE_TYPES = ("text/html", "application/xhtml+xml")
_PLAYLIST_TYPES = (
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "audio/x-mpegurl",
    "application/dash+xml",
)


def refusal(content_type: str, head: bytes) -> tuple[str, str] | None:
    """Code and sentence for what is no recording; none for what may be one.

    What a server calls its files is often wrong, so the bytes decide; the type it gave only tells
    apart what is text. Bytes that are no text are the media process's to judge.
    """
    if not head:
        return "link_empty", "the link leads to an empty file"
    kind = content_type.partition(";")[0].strip().lower()
    text = _as_text(head)
    if text is None:
        return None
    if _PLAYLIST.match(text) or kind in _PLAYLIST_TYPES:
        return (
            "link_is_playlist",
            "the link leads to a playlist; give the link of the recording's own file",
        )
    if _PAGE.match(text) or kind in _PAGE_TYPES:
        return (
            "link_is_page",
            "the link leads to a web page; give the link of the recording's own file, or download"
            " it and upload it here",
        )
    return (
        "link_is_text",
        "the link leads to a text; give the link of the recording's own file",
    )


def _as_text(head: bytes) -> bytes | None:
    """In lower case and one byte a character; none for what no text holds."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        # UTF-16, as its mark says; an MP3 frame that begins with the same bytes has no such text.
        head = head[2:].replace(b"\0", b"")
    head = head.removeprefix(b"\xef\xbb\xbf")
    return head.lower() if _TEXT_BYTES.issuperset(head) else None
