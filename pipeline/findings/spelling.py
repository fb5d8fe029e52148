"""One spelling for what can be written in several ways, before a text is read for comparison."""

from __future__ import annotations

import re
import unicodedata

_PRIVATE = re.compile(r"[\ue000-\ue0ff]")
"""Signs that stand for terms while a text is read."""

_PLAIN_CHARACTERS = {
    **dict.fromkeys(map(ord, "‐‑‒–—―−﹣－"), "-"),  # noqa: RUF001
    **dict.fromkeys(map(ord, "’‘ʼ`´"), "'"),  # noqa: RUF001
    **dict.fromkeys(map(ord, "*_"), None),
    ord("٫"): ".",  # noqa: RUF001
    ord("٬"): ",",
    ord("٪"): "%",
    ord("½"): ".5",
    ord("¼"): ".25",
    ord("¾"): ".75",
}
_ALIASES = tuple(
    (needs, re.compile(pattern, re.IGNORECASE), word)
    for needs, pattern, word in (
        ("'t", r"\bwon't\b", "will not"),
        ("can", r"\bcan't\b|\bcannot\b", "can not"),
        ("n't", r"(?<=\w)n't\b", " not"),
        ("'ll", r"(?<=\w)'ll\b", " will"),
        ("chief", r"\bchief executive(?: officer)?\b", "CEO"),
        ("chief", r"\bchief financial officer\b|\bfinance chief\b", "CFO"),
        ("earnings per", r"\bearnings per share\b", "EPS"),
        ("in line", r"\bin line\b", "inline"),
        ("fell short", r"\bfell short\b", "missed"),
        ("short", r"\bfalls? short\b", "miss"),
        ("forward", r"\b(?:brought|bring|brings|bringing) forward\b", "earlier"),
        ("not only", r"\bnot only\b", "both"),
        ("off", r"\blaid off\b|\blaying off\b", "layoff"),
        ("held", r"\bheld (?:steady|flat)\b", "flat"),
        ("up to", r"\bup to(?= *[$€£\d])", "maximum"),
        ("least", r"\bat least(?= *[$€£\d])", "above"),
        ("than", r"\b(?:no less|more) than(?= *[$€£\d])", "above"),
        ("over", r"\bover(?= *[$€£\d])", "above"),
        ("than", r"\b(?:less|fewer) than(?= *[$€£\d])", "below"),
        ("under", r"\bunder(?= *[$€£\d])", "below"),
        ("at most", r"\bat most(?= *[$€£\d])", "maximum"),
        ("u.s.", r"\bU\.S\.(?:A\.)?", "US"),
        ("united", r"\bUnited States\b", "US"),
        ("u.k.", r"\bU\.K\.", "UK"),
        ("united", r"\bUnited Kingdom\b", "UK"),
    )
)
"""What the case-folded text must have for the pattern to be worth trying, and what replaces it."""


def plain_text(text: str) -> str:
    """The text in one width and with plain dashes, quotes and digits."""
    text = _PRIVATE.sub("", text).translate(_PLAIN_CHARACTERS)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_PLAIN_CHARACTERS)
        text = "".join(map(_ascii_digit, text))
    folded = text.casefold()
    for needs, pattern, word in _ALIASES:
        if needs in folded:
            text = pattern.sub(word, text)
    return text


def _ascii_digit(character: str) -> str:
    value = unicodedata.decimal(character, None)
    return character if value is None else str(value)
