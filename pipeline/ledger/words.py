"""Text as search compares it: folded the same way wherever it was written and whatever stores it.

The database's own folding depends on its locale, and its word parsers know no script without
spaces, so that both are done here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

TERMS_MAX = 16
"""In one query; each of them is looked for in every text."""

PARTS = " / "
"""Between names that stand in one folded text: no folded word has a slash, so none spans two."""

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u109f"  # Tibetan, Myanmar
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul, which adds endings to words
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_STARTS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_TERM = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')

_KEPT = ("L", "M", "N")
_ALONE = ("Sc", "So")


def fold(text: str) -> str:
    """Words between single spaces, one at each end too: compatible forms made equal, case folded.

    Punctuation parts words; currency and other signs are words of their own, and so is every run
    of a script that writes without spaces. Empty text for no word at all.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    spaced = "".join(_placed(character) for character in text)
    words = _RUN.sub(lambda run: f" {run.group()} ", spaced).split()
    return f" {' '.join(words)} " if words else ""


def holding_text(
    holding_id: str, name: str, ticker: str | None, exchange: str | None, aliases: Iterable[str]
) -> str:
    """Everything that a holding is called."""
    place = f"{exchange}:{ticker}" if exchange and ticker else ""
    return PARTS.join(filter(None, map(fold, (holding_id, name, ticker or "", place, *aliases))))


def finding_text(said: Iterable[str], names: Iterable[str]) -> str:
    """What a finding says, and its holdings' names, which are folded already."""
    return PARTS.join(filter(None, (*map(fold, said), *names)))


@dataclass(frozen=True, kw_only=True)
class Query:
    """What was typed into a search: all of `wanted`, and nothing of `unwanted`."""

    wanted: tuple[tuple[str, ...], ...]
    """Each an alternative between pieces of folded text, of which one has to be there."""
    unwanted: tuple[str, ...]


def parse(typed: str) -> Query:
    """Total, as web searches are: words, "a phrase", -without, this OR that.

    A word is found where a word begins with it; within a script without spaces, anywhere. Nothing
    is wanted where nothing typed has a letter, a digit or a sign.
    """
    wanted: list[tuple[str, ...]] = []
    unwanted: list[str] = []
    is_alternative = False
    for minus, phrase, word in _TERM.findall(typed):
        if word == "OR" and not minus:
            is_alternative = bool(wanted)
            continue
        piece = _piece(phrase or word, is_phrase=not word)
        if not piece or len(unwanted) + sum(map(len, wanted)) >= TERMS_MAX:
            continue
        if minus:
            unwanted.append(piece)
        elif is_alternative:
            wanted[-1] += (piece,)
        else:
            wanted.append((piece,))
        is_alternative = False
    return Query(wanted=tuple(wanted), unwanted=tuple(unwanted))


def whole(name: str) -> str:
    """The piece that a folded text has where it has this name as whole words."""
    return _piece(name, is_phrase=True)


def _piece(text: str, *, is_phrase: bool) -> str:
    folded = fold(text)
    if not is_phrase:
        folded = folded.rstrip()
    bare = folded.strip()
    if not bare:
        return ""
    if _STARTS_UNSPACED.match(bare):
        folded = folded.lstrip()
    if _STARTS_UNSPACED.match(bare[-1]):
        folded = folded.rstrip()
    return folded


def _placed(character: str) -> str:
    category = unicodedata.category(character)
    if category.startswith(_KEPT):
        return character
    return f" {character} " if category in _ALONE else " "
