"""Text that goes round in circles: the first copy stays, what follows is held back."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

Span = tuple[int, int]

PERIOD_WORDS_MAX = 64
"""The longest phrase that is followed; a repeated line may be of any length."""

PERIOD_LINES_MAX = 16

FIGURES_COPIES_MIN = 12
"""Copies of figures or units in a row that are no table any more: it has a column a month."""

# A writing that puts no space between words is read by its characters, each half a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(
    f"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\\W_])+(?:['’.,-](?:(?![{_UNSPACED}])[^\\W_])+)*"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_UNIT_WORDS = (
    "usd eur gbp jpy chf cny k m mn bn tn million billion thousand trillion percent pct pp bp bps "
    "x na n a nm yoy qoq yes no per share shares"
)
_UNITS = frozenset(_UNIT_WORDS.split())
_CHARACTERS = re.compile(r"([^\d\s])\1{39,}|([^\d\s]{2,16}?)\2{11,}")
"""One character forty times, or a few twelve times, without a space between."""


class _Runs:
    """Finds in a stream of tokens those that stand where the same stood one period before."""

    def __init__(self, period_max: int) -> None:
        self._period_max = period_max
        self._count = 0
        self._seen: dict[str, deque[int]] = {}
        self._recent: deque[str] = deque()
        self._lengths: dict[int, int] = {}

    def take(self, token: str) -> dict[int, int]:
        """Add a token; returns how far back each period now repeats, by period, in tokens."""
        places = self._seen.setdefault(token, deque())
        while places and self._count - places[0] > self._period_max:
            places.popleft()
        before = self._lengths
        self._lengths = {
            self._count - place: before.get(self._count - place, 0) + 1 for place in places
        }
        places.append(self._count)
        self._count += 1
        self._recent.append(token)
        if len(self._recent) > self._period_max:
            oldest = self._recent.popleft()
            held = self._seen[oldest]
            if held[-1] <= self._count - 1 - self._period_max:
                del self._seen[oldest]
        return self._lengths

    def last(self, count: int) -> list[str]:
        """The last tokens, in order."""
        return [
            self._recent[index] for index in range(len(self._recent) - count, len(self._recent))
        ]


class RepetitionGuard:
    """Holds back degenerate repetition within one value or one run of prose, line by line.

    What earlier lines said is told already and stays; in the line at hand everything from the
    second copy on goes. A phrase counts as degenerate by its length: five times the same word,
    four times two or three, three times a clause, twice a sentence; a line as soon as it comes
    again.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new value begins."""
        self._words = _Runs(PERIOD_WORDS_MAX)
        self._lines = _Runs(PERIOD_LINES_MAX)
        self._looping: dict[int, int] = {}
        """Degenerate periods, and how far back each repeats."""

    def find(self, text: str) -> list[Span]:
        """Where the next line repeats; spans in order, apart from each other."""
        spans = [
            (found.start() + len(found[1] or found[2]), found.end())
            for found in _CHARACTERS.finditer(text)
        ]
        found_words = list(_WORD.finditer(text))
        words = [match[0].casefold() for match in found_words]
        held = self._held_words(words)
        if words and self._is_line_again(words):
            held = [True] * len(words)
        start: int | None = None
        for position, is_held in enumerate([*held, False]):
            if is_held and start is None:
                start = position
            elif not is_held and start is not None:
                spans.append((found_words[start].start(), found_words[position - 1].end()))
                start = None
        return _merged(sorted(spans))

    def _held_words(self, words: Sequence[str]) -> list[bool]:
        held = [False] * len(words)
        for position, word in enumerate(words):
            lengths = self._words.take(word)
            for period in [period for period in self._looping if period not in lengths]:
                # The copy that broke off begins something else: it stays whole.
                begun = max(position - self._looping.pop(period) % period, 0)
                held[begun:position] = [False] * (position - begun)
            for period, length in lengths.items():
                if period in self._looping:
                    self._looping[period] = length
                if length % period or period in self._looping:
                    continue
                if 1 + length // period >= _copies_min(self._words.last(period)):
                    self._looping[period] = length
                    first = max(position + 1 - length, 0)
                    held[first:position] = [True] * (position - first)
            held[position] = bool(self._looping)
        return held

    def _is_line_again(self, words: Sequence[str]) -> bool:
        lengths = self._lines.take(" ".join(words))
        if (len(words) < 3 and _weight(words) < 6) or _are_figures(words):
            return False
        return any(period == 1 or length > period for period, length in lengths.items())


def _copies_min(phrase: Sequence[str]) -> int:
    """How many copies in a row are degenerate: fewer, the longer the phrase."""
    if _are_figures(phrase):
        return FIGURES_COPIES_MIN
    weight = _weight(phrase)
    for least, copies in ((16, 2), (8, 3), (4, 4), (2, 5)):
        if weight >= least:
            return copies
    return 8


def _weight(words: Sequence[str]) -> int:
    """In half words."""
    return sum(1 if _IS_UNSPACED.match(word) else 2 for word in words)


def _are_figures(words: Sequence[str]) -> bool:
    return all(word in _UNITS or any(map(str.isdigit, word)) for word in words)


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
