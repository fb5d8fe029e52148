"""Lines, labels and sentence ends in generated text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.characters import is_invisible
from pipeline.prompt import LABEL_SPELLINGS, Label

LABEL_HEAD_CHARS = 64
"""A label with its markers is shorter; looking no further keeps every line linear."""

_LINE_ENDS = frozenset("\n\v\f\x85\u2028\u2029")


class Cleaner:
    """Removes control, invisible and bidirectional characters; makes every line end `\\n`.

    Keeps what it must know of earlier text, so that any split of a text is cleaned alike.
    """

    def __init__(self) -> None:
        self._is_after_return = False

    def clean(self, text: str) -> str:
        return "".join(map(self._cleaned, text))

    def _cleaned(self, character: str) -> str:
        is_second_half = self._is_after_return and character == "\n"
        self._is_after_return = character == "\r"
        if is_second_half:
            return ""
        if character == "\r" or character in _LINE_ENDS:
            return "\n"
        if character == "\t":
            return " "
        return "" if is_invisible(character) else character


@dataclass(frozen=True, kw_only=True)
class LabelLine:
    """A line that begins with a label."""

    label: Label
    head: str
    """The line up to its value, as written."""
    value: str
    """What follows the colon on this line."""
    open_marker: str
    """A bold marker that stands before the label and has not been closed; else empty."""


def _spelled(label: Label) -> str:
    longest_first = sorted(LABEL_SPELLINGS[label], key=len, reverse=True)
    words = "|".join(re.escape(spelling).replace(r"\ ", r"\s+") for spelling in longest_first)
    return f"(?P<{label.name}>{words})"


_ITEM = r"(?:(?:[-+•‣◦▪▶►●○■□・·–—−]|\*(?=\s)|\(?\d{1,3}[.)]|\(?[a-z][.)])\s*)?"
"""A list marker. Bold ones stand before or behind it: `1. **Evidence:**`, `**1. Evidence:**`."""

_LABEL_LINE = re.compile(
    rf"{_ITEM}(?P<marker>\*{{1,3}}|_{{1,3}})?\s*{_ITEM}"
    f"(?:{'|'.join(map(_spelled, Label))})"
    r"\s*(?P<inner>\*{1,3}|_{1,3})?\s*[:：]",  # noqa: RUF001
    re.IGNORECASE,
)


def read_label(line: str) -> LabelLine | None:
    """The label at the start of a cleaned line, after optional list or bold markers."""
    written = line.rstrip()
    line = written.lstrip()
    found = _LABEL_LINE.match(line[:LABEL_HEAD_CHARS])
    if found is None:
        return None
    marker, inner = found["marker"] or "", found["inner"] or ""
    if inner and inner != marker:
        return None
    value = line[found.end() :].strip()
    if marker and not inner and value.startswith(marker):
        value, marker = value[len(marker) :].strip(), ""
    label = next(label for label in Label if found[label.name] is not None)
    return LabelLine(
        label=label,
        head=written[: len(written) - len(value)],
        value=value,
        open_marker="" if inner else marker,
    )


_SENTENCE_ENDS = ".!?…‽⁇⁈⁉‼。！？．｡؟۔।॥։።፧។။᠃"  # noqa: RUF001
_CLOSERS = " \u00a0\u3000\"'”’“‘»›«‹)]}*_`」』）】〉》］｝〕"  # noqa: RUF001


def ends_sentence(text: str) -> bool:
    """Whether sentence punctuation ends the text, before closing quotes, brackets and markers."""
    return text.rstrip(_CLOSERS)[-1:] in tuple(_SENTENCE_ENDS)


def closes(lines: Sequence[str]) -> bool:
    """Whether the last line ends a sentence; one of other marks, such as `---`, is passed over."""
    said = (line for line in reversed(lines) if says_something(line) or ends_sentence(line))
    return ends_sentence(next(said, ""))


def says_something(text: str) -> bool:
    """Whether a value has a letter or a digit; marks alone are no value."""
    return any(map(str.isalnum, text))
