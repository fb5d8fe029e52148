"""Which characters the fonts of the PDF can draw."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

_FONTS = files("pipeline.brief") / "fonts"


def drawable(text: str) -> tuple[str, bool]:
    """The text, every character without a glyph as `[U+1F600]`, and whether there was one."""
    drawn = _undrawn().sub(lambda match: _spelled(match.group()), text)
    return drawn, drawn != text


def _spelled(characters: str) -> str:
    return "".join(f"[U+{ord(character):04X}]" for character in characters)


@lru_cache(maxsize=1)
def _undrawn() -> re.Pattern[str]:
    """`coverage.txt` lists what both weights of the fonts have, in ranges of code points."""
    ranges = (_FONTS / "coverage.txt").read_text("ascii").split()
    classes = "".join("-".join(rf"\U{int(end, 16):08x}" for end in r.split("-")) for r in ranges)
    return re.compile(f"[^\\n{classes}]+")
