"""What a file that is handed out is called and sealed with."""

from __future__ import annotations

import base64
import re
import unicodedata
from urllib.parse import quote

from flask import Response

NAME_CHARS_MAX = 60
"""Three bytes each still fit the 255 that most file systems allow, with an ending."""

_RUNS = re.compile("-{2,}")


def safe_name(title: str, *, ending: str) -> str:
    """A file's name in letters, digits, marks and dashes of any script.

    No path, no hidden file and no second ending can come of it.
    """
    kept = "".join(
        character if unicodedata.category(character)[0] in "LNM" else "-"
        for character in unicodedata.normalize("NFC", title)
    )
    stem = _RUNS.sub("-", kept)[:NAME_CHARS_MAX].strip("-")
    return f"{stem or 'brief'}.{ending}"


def disposition(title: str, *, ending: str, is_shown: bool) -> str:
    """Tells the browser what to call the file, and whether to show it (RFC 6266)."""
    name = safe_name(title, ending=ending)
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    told = f'{"inline" if is_shown else "attachment"}; filename="{safe_name(plain, ending=ending)}"'
    return told if name.isascii() else f"{told}; filename*=UTF-8''{quote(name, safe='')}"


def seal(response: Response, sha256: bytes) -> None:
    """The digest of the bytes that are sent, as RFC 9530 writes it, and as their ETag."""
    response.headers["Repr-Digest"] = f"sha-256=:{base64.b64encode(sha256).decode()}:"
    response.set_etag(sha256.hex()[:32])
