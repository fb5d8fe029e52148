"""The prompt's own sentences in generated text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from pipeline.findings.grammar import read_label
from pipeline.prompt import system_text

WHOLE_WORDS_MIN = 4
"""Words of the shortest sentence that counts when it is repeated whole."""

PART_WORDS_MIN = 5
"""Words of the shortest part of a sentence that counts when nothing else is said beside it."""

Span = tuple[int, int]

_Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_BREAK = re.compile(r"[^\w\s*`'’-]")
_STOP = re.compile(r"[.!?:;…。！？：；]")  # noqa: RUF001


class _Prompt:
    """The fixed part of the prompt, by its sentences, without anything that a caller supplied."""

    def __init__(self) -> None:
        self.headings: set[_Words] = set()
        self.sentences: dict[_Words, list[_Words]] = {}
        self.parts: dict[_Words, list[tuple[_Words, int]]] = {}
        for line in system_text("", ()).splitlines():
            labelled = read_label(line)
            line = line if labelled is None else labelled.value
            sentences = [_words(part) for part in re.split(r"(?<=[.:])\s+", line)]
            if line.endswith(":"):
                self.headings.add(_words(line))
            for sentence in sentences:
                self._add(sentence)

    def _add(self, sentence: _Words) -> None:
        if len(sentence) < WHOLE_WORDS_MIN:
            return
        self.sentences.setdefault(sentence[:WHOLE_WORDS_MIN], []).append(sentence)
        for position in range(len(sentence) - PART_WORDS_MIN + 1):
            part = sentence[position : position + PART_WORDS_MIN]
            self.parts.setdefault(part, []).append((sentence, position))


@lru_cache(maxsize=1)
def _prompt() -> _Prompt:
    return _Prompt()


def find_echoes(text: str) -> list[Span]:
    """Where a value or a line of prose repeats the prompt.

    A sentence of it counts where marks or the text's ends stand around it, so that words shared
    with the prompt inside another sentence do not; a part of one counts where it is all that a
    sentence says.
    """
    prompt = _prompt()
    found = list(_WORD.finditer(text))
    words = tuple(_plain(match[0]) for match in found)
    if text.rstrip(" *_`").endswith((":", "：")) and words in prompt.headings:  # noqa: RUF001
        return [(0, len(text))]
    gaps = [text[: found[0].start()]] if found else []
    gaps += [text[before.end() : after.start()] for before, after in pairwise(found)]
    ends = len(found)
    is_break = [position == 0 or bool(_BREAK.search(gap)) for position, gap in enumerate(gaps)]
    is_stop = [position == 0 or bool(_STOP.search(gap)) for position, gap in enumerate(gaps)]
    is_break.append(True)
    is_stop.append(True)
    spans: list[Span] = []
    position = 0
    while position < ends:
        length = 0
        if is_break[position]:
            length = max(_wholes(prompt, words, position, is_break), default=0)
        if is_stop[position] and not length:
            length = max(_parts(prompt, words, position, is_stop), default=0)
        if length:
            spans.append((found[position].start(), found[position + length - 1].end()))
        position += length or 1
    return _joined(text, spans)


def _wholes(prompt: _Prompt, words: _Words, position: int, is_break: list[bool]) -> Iterator[int]:
    for sentence in prompt.sentences.get(words[position : position + WHOLE_WORDS_MIN], ()):
        end = position + len(sentence)
        if words[position:end] == sentence and is_break[end]:
            yield len(sentence)


def _parts(prompt: _Prompt, words: _Words, position: int, is_stop: list[bool]) -> Iterator[int]:
    for sentence, start in prompt.parts.get(words[position : position + PART_WORDS_MIN], ()):
        length = PART_WORDS_MIN
        while (
            start + length < len(sentence)
            and position + length < len(words)
            and sentence[start + length] == words[position + length]
        ):
            length += 1
        if is_stop[position + length]:
            yield length


def _joined(text: str, spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and not _WORD.search(text, joined[-1][1], start):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _words(text: str) -> _Words:
    return tuple(_plain(match[0]) for match in _WORD.finditer(text))


def _plain(word: str) -> str:
    return word.casefold().replace("’", "'")
