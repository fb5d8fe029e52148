"""Characters of supplied and generated text: refused ones, unseen ones, quoted ones."""

from __future__ import annotations

import unicodedata

QUOTED_CHARS_MAX = 40

_BIDI_CONTROLS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")

# Letters and marks by category, yet drawn as nothing: fillers, joiners, variation selectors.
_BLANK_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0100, 0xE01EF),
)


def control_character(text: str, *, allowed: str = "") -> str | None:
    """Names the first control character and its place, as the start of a sentence; none if none."""
    for position, character in enumerate(text, start=1):
        if character not in allowed and is_control(character):
            return f"character {position} (U+{ord(character):04X}) is a control character"
    return None


def is_control(character: str) -> bool:
    """Whether no text that is shown may hold it, lone surrogates and direction marks included."""
    # Joiners stay allowed, since scripts such as Persian write words with them; overrides of the
    # writing direction do not, since they make a text read as another one.
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in _BIDI_CONTROLS
    )


def is_invisible(character: str) -> bool:
    """Whether it is drawn as nothing: controls, formats, lone surrogates, fillers."""
    if " " <= character <= "~":
        return False
    code = ord(character)
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") or any(
        first <= code <= last for first, last in _BLANK_RANGES
    )


def quoted(text: str) -> str:
    """A supplied value in a message: short, on one line, printable."""
    return f"“{_short(text)}”"


def pointer_token(key: str) -> str:
    """A supplied name as one part of a JSON pointer: escaped, short, printable."""
    return _short(key).replace("~", "~0").replace("/", "~1")


def _short(text: str) -> str:
    short = text if len(text) <= QUOTED_CHARS_MAX else text[:QUOTED_CHARS_MAX] + "…"
    return "".join(character if character.isprintable() else "�" for character in short)
