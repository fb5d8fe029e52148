"""By what the rest of a file is known to belong to the part that is here (RFC 9110, 8.8 and 14)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from pipeline.ledger.fetches import Version
from pipeline.link import Link

CLOCKS_APART = timedelta(seconds=60)
"""A date names one version only where the answer is so much younger (RFC 9110, 8.8.2.2): within
less, a file may have changed twice, and the two clocks may differ."""

VALIDATOR_CHARS_MAX = 500

_STRONG_TAG = re.compile(r'"[\x21\x23-\x7e]*"')
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")

Headers = Mapping[str, str]
"""By their lower-case names; those that came several times, joined by commas."""


def version_of(link: Link, headers: Headers, *, total_bytes: int | None) -> Version | None:
    """What a whole file's answer says of its version; none where nothing names it surely."""
    if total_bytes is None or headers.get("accept-ranges", "").strip().lower() == "none":
        return None
    validator = _validator(headers)
    if validator is None or len(validator) > VALIDATOR_CHARS_MAX:
        return None
    return Version(validator=validator, total_bytes=total_bytes, place_sha256=place_sha256(link))


def range_headers(version: Version, *, start: int) -> list[tuple[str, str]]:
    """Asks for the rest of this version, and for the whole file where it is another one by now."""
    return [("Range", f"bytes={start}-"), ("If-Range", version.validator)]


def is_rest(version: Version, link: Link, headers: Headers, *, start: int) -> bool:
    """Whether a 206 is exactly what was asked for: these bytes, to the end, of this version."""
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if found is None or place_sha256(link) != version.place_sha256:
        return False
    first, last, total = (int(number) for number in found.groups())
    if (first, last, total) != (start, version.total_bytes - 1, version.total_bytes):
        return False
    if headers.get("content-length", str(total - start)).strip() != str(total - start):
        return False
    if version.validator.startswith('"'):
        return headers.get("etag", "").strip() == version.validator
    # A date need not come again with a part (RFC 9110, 15.3.7).
    return headers.get("last-modified", version.validator).strip() == version.validator


def place_sha256(link: Link) -> str:
    """Where it came from, without what may differ from one signed link to the next: a version's
    name means something only there."""
    path = link.target.partition("?")[0]
    return hashlib.sha256(f"{link.host}{path}".encode()).hexdigest()


def read_date(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return read if read.tzinfo is not None else None


def _validator(headers: Headers) -> str | None:
    tag = headers.get("etag")
    if tag is not None:
        # Where there is a tag, a date must not stand in for it, however weak the tag is.
        return tag.strip() if _STRONG_TAG.fullmatch(tag.strip()) else None
    modified = read_date(headers.get("last-modified", ""))
    answered = read_date(headers.get("date", ""))
    if modified is None or answered is None or answered - modified < CLOCKS_APART:
        return None
    return headers["last-modified"].strip()
