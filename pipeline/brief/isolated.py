"""Text of a right-to-left script that leaves the order of its neighbours alone."""

from __future__ import annotations

import re

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_LETTER = re.compile(
    "[A-Za-z\u00c0-\u1fff\u2e80-\ud7a3\uf900-\ufdff\ufe70-\uffdc\U00010000-\U0002ffff]"
)
_FIRST_STRONG, _POP = "\u2068", "\u2069"


def has_right_to_left(text: str) -> bool:
    return _RIGHT_TO_LEFT.search(text) is not None


def begins_right_to_left(text: str) -> bool:
    """Whether its first letter is of such a script."""
    first = _LETTER.search(text)
    return first is not None and has_right_to_left(first.group())


def isolated(text: str) -> str:
    """Line by line within an isolate, where it has such letters; `visible` text only."""
    if not has_right_to_left(text):
        return text
    return "\n".join(f"{_FIRST_STRONG}{line}{_POP}" for line in text.split("\n"))
