"""Text that PostgreSQL can keep: one rule for characters it cannot."""

from __future__ import annotations

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """Put U+FFFD for every NUL and lone surrogate; nothing else changes, and no length does."""
    return _UNSTORABLE.sub(REPLACEMENT, text)
