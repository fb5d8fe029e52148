"""What is kept of a generated line, and what a reader must know of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.findings.credentials import CredentialMask
from pipeline.findings.echoes import find_echoes
from pipeline.findings.grammar import LabelLine, says_something
from pipeline.findings.orders import OrderFinder
from pipeline.findings.repetition import RepetitionGuard
from pipeline.prompt import Label
from pipeline.records import TextMark

SECRET_MASKED = "secret_masked"
"""Strings shaped like credentials were replaced in place."""
PROMPT_ECHO = "prompt_echo"
"""Sentences of the prompt were held back."""
REPETITION = "repetition"
"""Copies of what had just been said were held back."""
TRADE_ORDER = "trade_order"
"""It orders or advises to trade; the text stays."""
LINK = "link"
"""It has a link or an address; the text stays."""
NUMBERS = "numbers"
"""It has figures, which are as heard or seen."""

CODES = (SECRET_MASKED, PROMPT_ECHO, REPETITION, TRADE_ORDER, LINK, NUMBERS)
"""In the order in which marks stand."""

Counts = Mapping[str, int]

_LINK = re.compile(
    r"(?<![\w.+-])(?:"
    r"[a-z][a-z0-9+.-]{1,15}://\S+"
    r"|www\d?\.[\w-]{1,63}\.\S+"
    r"|(?:mailto|javascript|vbscript|tel|sms):[^\s:]\S*"
    r"|data:[a-z]{1,16}/\S+"
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    # A bare address has a path or a host below its domain: `Amazon.com` is a name.
    r"|(?:[a-z0-9-]{1,63}\.){1,4}(?:com|org|net|edu|gov|io|co|info|biz|eu|uk|de|fr|jp|cn|dev|app|ly)/\S*"
    r"|(?:[a-z0-9-]{2,63}\.){2,4}(?:com|org|net|edu|gov|io|info|biz|eu)(?![\w-])"
    r")",
    re.IGNORECASE,
)
_HAN = "〇零一二三四五六七八九十百千万億兆亿"
_FIGURE = re.compile(
    rf"\d+(?:[.,:/]\d+)*|[¼½¾⅓⅔⅛⅜⅝⅞]|(?<![{_HAN}])[{_HAN}]{{1,20}}(?=[%年月期円元倍割])"
)
_FIGURE_WORD = re.compile(
    r"(?<![\w-])(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    r"|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?"
    r"|thousands?|millions?|billions?|trillions?|dozens?|percent|basis points?)(?!\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a block as it is kept."""

    text: str
    """With its label; empty where all of it was held back."""
    value: str
    """Without the label and what stands before it."""
    label: Label | None = None
    open_marker: str = ""
    """A bold marker that stands before the label and is not closed on the label's side."""
    counts: Counts = field(default_factory=dict)
    """What was masked or held back in it."""


BLANK = Line(text="", value="")
"""Parts paragraphs of prose."""


class LineGuard:
    """Takes the lines of one turn in order and keeps of each what may be shown.

    Works on whole lines, so that nothing depends on how a text came in.
    """

    def __init__(self) -> None:
        self._credentials = CredentialMask()
        self._repetition = RepetitionGuard()

    def take(self, line: str, labelled: LabelLine | None, *, begins_block: bool) -> Line:
        """A cleaned line that has something in it; `begins_block` where a new block starts."""
        head, value = ("", line) if labelled is None else (labelled.head, labelled.value)
        if labelled is not None:
            self._credentials.restart()
        if labelled is not None or begins_block:
            self._repetition.restart()
        kept, secrets = self._credentials.mask(value)
        echoes = find_echoes(kept)
        kept = without(kept, echoes)
        copies = self._repetition.find(kept)
        kept = without(kept, copies)
        found = {SECRET_MASKED: secrets, PROMPT_ECHO: len(echoes), REPETITION: len(copies)}
        return Line(
            text=(head + kept).rstrip(),
            value=kept.strip(),
            label=None if labelled is None else labelled.label,
            open_marker="" if labelled is None else labelled.open_marker,
            counts={code: count for code, count in found.items() if count},
        )


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text without these stretches and the marks that parted them from it."""
    if not spans:
        return text
    kept = text[: spans[0][0]]
    ends = [*(start for start, _ in spans[1:]), len(text)]
    for (_, start), end in zip(spans, ends, strict=True):
        kept = _together(kept, text[start:end])
    return kept if says_something(kept) else ""


_PARTING = " ,;:/|–—-"
_STOPS = ".!?…。！？"  # noqa: RUF001


def _together(before: str, after: str) -> str:
    before, after = before.rstrip(_PARTING), after.lstrip()
    if not before or before.endswith(tuple(_STOPS)):
        after = after.lstrip(_STOPS + _PARTING)
    is_word = after[:1].isalnum() or after.startswith(("(", "[", '"', "“"))
    return before + (" " if before and is_word else "") + after


def kept_text(lines: Iterable[Line]) -> str:
    """The lines as they are shown; empty where labels are all that was not held back."""
    lines = list(lines)
    is_cut = any(line.counts for line in lines)
    if is_cut and not any(says_something(line.value) for line in lines):
        return ""
    shown = [line.text for line in lines if line.text or line is BLANK]
    return "\n".join(shown).rstrip()


def marks(
    lines: Iterable[Line], *, told: Sequence[str], figures_in: Sequence[str], orders: OrderFinder
) -> tuple[TextMark, ...]:
    """What a reader must know of a record.

    :param told: what is shown of it, value by value.
    :param figures_in: the values whose figures count.
    """
    counts = dict.fromkeys(CODES, 0)
    for line in lines:
        for code, count in line.counts.items():
            counts[code] += count
    counts[TRADE_ORDER] = sum(map(orders.count, told))
    counts[LINK] = sum(len(_LINK.findall(value)) for value in told)
    counts[NUMBERS] = sum(
        len(_FIGURE.findall(value)) + len(_FIGURE_WORD.findall(value)) for value in figures_in
    )
    return tuple(TextMark(code=code, count=count) for code, count in counts.items() if count)
