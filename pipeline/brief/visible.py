"""Text whose every character can be seen: what has no glyph or turns the line is spelled out."""

from __future__ import annotations

import re
from itertools import groupby

# Fixed ranges and not the interpreter's tables, which differ between versions of Python: the same
# rows must give the same bytes. Line feed and tab are white space and stay.
_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, bidirectional controls
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # fillers, selectors, byte order
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and music format controls
    "\U000e0000-\U000e0fff"  # tags and more selectors
    "\ud800-\udfff"  # halves of a pair
    "]"
)
# Accents piled up beyond what any script writes would cover the lines above and below.
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_PILE = re.compile(f"({_MARK}{{4}})({_MARK}+)")
_LINE_ENDS = re.compile("\r\n?")


def visible(text: str) -> str:
    """Control, bidirectional and invisible characters become `[U+202E]`; nothing is dropped.

    So does every accent after the fourth on one letter. Line ends become line feeds.
    """
    text = _UNSEEN.sub(lambda match: _spelled(match.group()), _LINE_ENDS.sub("\n", text))
    return _PILE.sub(lambda match: match.group(1) + _counted(match.group(2)), text)


def _spelled(characters: str) -> str:
    return "".join(f"[U+{ord(character):04X}]" for character in characters)


def _counted(characters: str) -> str:
    """`[U+0301×76]`: a long pile of one accent stays short."""
    runs = ((character, sum(1 for _ in run)) for character, run in groupby(characters))
    return "".join(
        f"[U+{ord(character):04X}×{length}]" if length > 1 else _spelled(character)
        for character, length in runs
    )
