"""Which supplied holdings a text names: whole items only, never by guess."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.characters import is_invisible
from pipeline.records import Holding

_ONE_WORD_FORMS = (
    "ab abp ag aktiebolag aktiengesellschaft aktieselskab aps as asa aş bhd bsc bv bvba co "
    "company corp corporation cv dd doo ead eood gmbh hf inc incorporated jsc kft kg kgaa kk ksc "
    "limited llc llp lp ltd ltda nv nyrt ojsc ood oy oyj pcl pjsc plc psc pte pty qpsc sa saog sab "
    "sarl sas sca sdn se sgps slu spa srl srls tas tbk ulc zao zrt ао зао оао ооо пао"  # noqa: RUF001
)
_LONG_FORMS = (
    "public company limited|public limited company|limited liability company|joint stock company|"
    "sp z oo|de cv|a s"
)
_WRITTEN_ON_FORMS = "株式会社 股份有限公司 有限责任公司 有限責任公司 有限公司 有限会社 주식회사"
LEGAL_SUFFIXES = frozenset(
    (
        *(tuple(form.split()) for form in _LONG_FORMS.split("|")),
        *((form,) for form in (*_ONE_WORD_FORMS.split(), *_WRITTEN_ON_FORMS.split())),
    )
)
"""Legal forms as words, without their dots; taken off the end of a name, one after another."""

_FORM_WORDS_MAX = max(map(len, LEGAL_SUFFIXES))
_WRITTEN_ON = re.compile(f"(?<=.)(?:{'|'.join(_WRITTEN_ON_FORMS.split())})$")
"""Some scripts write the form on without a space."""

NAMES_KEPT = 4096
"""Names whose words are kept: a portfolio's are read again for every epoch."""

SUFFIX_ITEMS_MAX = 2
"""Commas that a legal form may bring into a name as said: `Acme Co., Ltd.` has two."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """What a holdings field names, in the order of the field."""

    holding_ids: tuple[str, ...]
    unmatched: tuple[str, ...]
    ambiguous: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Which holdings one item could mean; none of them where it is unknown."""

    holdings: frozenset[int] = frozenset()
    is_contradicted: bool = False
    """Whether the item names another exchange or another name than the holding's."""

    @property
    def is_certain(self) -> bool:
        return len(self.holdings) == 1 and not self.is_contradicted


_UNKNOWN = _Fit()

_Words = tuple[str, ...]


class HoldingsIndex:
    """Finds supplied holdings in the holdings field of a finding.

    An item is a holding's id, its ticker in capitals, `EXCHANGE:TICKER`, its name or an alias
    (case, punctuation and legal suffixes aside), or `Name (TICKER)` where both say the same.
    """

    def __init__(self, holdings: Sequence[Holding]) -> None:
        self._holdings = tuple(holdings)
        self._ids: dict[str, set[int]] = {}
        self._tickers: dict[str, set[int]] = {}
        self._names: dict[_Words, set[int]] = {}
        self._stems: dict[_Words, set[int]] = {}
        parts_max = words_max = 1
        for position, holding in enumerate(self._holdings):
            self._ids.setdefault(_single_spaced(holding.id), set()).add(position)
            if holding.ticker:
                self._tickers.setdefault(holding.ticker.upper(), set()).add(position)
            for name in (holding.name, *holding.aliases):
                words = name_words(name)
                if words:
                    self._names.setdefault(words, set()).add(position)
                    self._stems.setdefault(without_legal_suffix(words), set()).add(position)
                parts_max = max(parts_max, len(_SEPARATOR.split(_single_spaced(name))))
                words_max = max(words_max, len(words))
        self._parts_max = parts_max + SUFFIX_ITEMS_MAX
        self._words_max = words_max + 8

    def find(self, text: str) -> Named:
        """Read a holdings field: supplied names first, longest first, then item by item."""
        text = _single_spaced(_LIST_ITEM.sub(", ", text))
        spans = _item_spans(text)
        single = [self._fit(text[start:end]) for start, end in spans]
        fits: dict[int, tuple[int, _Fit]] = {}
        taken = [False] * len(spans)
        for first, last, fit in self._runs(text, spans, single):
            if not any(taken[first : last + 1]):
                taken[first : last + 1] = [True] * (last + 1 - first)
                fits[first] = (last, fit)
        for position, fit in enumerate(single):
            if not taken[position]:
                fits[position] = (position, fit)
        return self._named(text, spans, fits)

    def _named(
        self, text: str, spans: list[tuple[int, int]], fits: dict[int, tuple[int, _Fit]]
    ) -> Named:
        ids: dict[str, None] = {}
        unmatched: dict[str, None] = {}
        ambiguous: dict[str, None] = {}
        for first, (last, fit) in sorted(fits.items()):
            item = _bare(text[spans[first][0] : spans[last][1]])
            if fit.is_certain:
                ids.update((self._holdings[position].id, None) for position in fit.holdings)
            elif fit.holdings:
                ambiguous[item] = None
            elif item:
                unmatched[item] = None
        return Named(holding_ids=tuple(ids), unmatched=tuple(unmatched), ambiguous=tuple(ambiguous))

    def _runs(
        self, text: str, spans: list[tuple[int, int]], single: list[_Fit]
    ) -> list[tuple[int, int, _Fit]]:
        """Runs of items that together are one supplied name, such as `Tesla, Inc.`."""
        found: list[tuple[int, int, _Fit]] = []
        for first in range(len(spans)):
            for last in range(first + 1, min(first + self._parts_max, len(spans))):
                run = text[spans[first][0] : spans[last][1]]
                if len(run) > _RUN_CHARS_MAX or run.count(" ") > self._words_max:
                    break
                fit = self._fit_run(run)
                others = frozenset[int]().union(
                    *(part.holdings for part in single[first : last + 1])
                )
                # `Tesla, SE` may be Tesla and the ticker SE: only a whole name as supplied
                # outweighs an item that is another holding.
                if fit.holdings and (others <= fit.holdings or name_words(run) in self._names):
                    found.append((first, last, fit))
        return sorted(found, key=lambda run: (spans[run[0]][0] - spans[run[1]][1], run[0]))

    def _fit(self, item: str) -> _Fit:
        for spelling in dict.fromkeys((item.strip(), _bare(item))):
            fit = self._fit_plain(spelling)
            if fit.holdings:
                return fit
            fit = self._fit_bracketed(spelling)
            if fit.holdings:
                return fit
        return _UNKNOWN

    def _fit_run(self, run: str) -> _Fit:
        """Several items are one only by a supplied name, with or without its ticker behind it."""
        run = _bare(run) if run not in self._ids else run
        named = self._fit_name(run)
        if named:
            return _Fit(holdings=named)
        found = _BRACKETED.fullmatch(run)
        if found is not None and self._fit_name(found["outer"]):
            return self._fit_bracketed(run)
        return _UNKNOWN

    def _fit_name(self, item: str) -> frozenset[int]:
        words = name_words(item)
        named = self._names.get(words) or self._stems.get(without_legal_suffix(words), set())
        return frozenset(self._ids.get(item, set()) | named)

    def _fit_plain(self, item: str) -> _Fit:
        """An id, a ticker, a name, or a ticker after its exchange."""
        held = self._fit_name(item) | self._tickers.get(item, set())
        if held:
            return _Fit(holdings=held)
        exchange, colon, ticker = item.replace("：", ":").rpartition(":")  # noqa: RUF001
        listed = self._tickers.get(ticker.strip(), set()) if colon else set()
        same = {
            position
            for position in listed
            if (self._holdings[position].exchange or "").casefold() == exchange.strip().casefold()
        }
        unlisted = {position for position in listed if not self._holdings[position].exchange}
        # A holding supplied without an exchange contradicts none.
        right = same or unlisted
        return _Fit(holdings=frozenset(right or listed), is_contradicted=not right)

    def _fit_bracketed(self, item: str) -> _Fit:
        """`Name (TICKER)` or `TICKER (Name)`: two ways to say one holding."""
        found = _BRACKETED.fullmatch(item)
        if found is None:
            return _UNKNOWN
        outer, inner = self._fit_plain(found["outer"]), self._fit_plain(found["inner"])
        if not inner.holdings:
            return _UNKNOWN
        if outer.holdings:
            both = outer.holdings & inner.holdings
            contradicted = outer.is_contradicted or inner.is_contradicted or not both
            return _Fit(
                holdings=both or outer.holdings | inner.holdings, is_contradicted=contradicted
            )
        words = name_words(found["outer"])
        agreeing = frozenset(
            position for position in inner.holdings if self._begins_alike(position, words)
        )
        return _Fit(
            holdings=agreeing or inner.holdings,
            is_contradicted=inner.is_contradicted or not agreeing,
        )

    def _begins_alike(self, position: int, words: _Words) -> bool:
        """Whether the words begin one of the holding's names: `Alphabet` of `Alphabet Class A`.

        Not the other way about: `Apple Hospitality` is not Apple, whatever ticker follows.
        """
        holding = self._holdings[position]
        stem = without_legal_suffix(words)
        names = (holding.name, *holding.aliases)
        return bool(stem) and any(name_words(name)[: len(stem)] == stem for name in names)


@lru_cache(maxsize=NAMES_KEPT)
def name_words(name: str) -> _Words:
    """The words of a name, without case and punctuation; `&` is a word, like `and`."""
    plain = unicodedata.normalize("NFKC", name).casefold().replace("&", " and ")
    letters = "".join(
        character if character.isalnum() or unicodedata.category(character)[0] == "M" else " "
        for character in plain
        if character not in ".'’`´" and not is_invisible(character)  # noqa: RUF001
    )
    return tuple(letters.split())


def without_legal_suffix(words: _Words) -> _Words:
    """The words without the legal forms at their end; never none of them."""
    end = len(words)
    while True:
        longest = min(_FORM_WORDS_MAX, end - 1)
        for length in range(longest, 0, -1):
            if words[end - length : end] in LEGAL_SUFFIXES:
                end -= length
                break
        else:
            return (*words[: end - 1], _WRITTEN_ON.sub("", words[end - 1])) if end else ()
        if end > 1 and words[end - 1] == "and":
            end -= 1


_SEPARATOR = re.compile(r" ?[,;，；、،؛] ?(?:and )?| and(?: |$)", re.IGNORECASE)  # noqa: RUF001
_LIST_ITEM = re.compile(r"(?:^|[,;]?\n)\s*(?:[-•*▪●・]|\d{1,3}[.)])\s+")
"""A list marker at the start of a line parts items as a comma does."""
_BRACKETED = re.compile(r"(?P<outer>[^()（）]+?) ?[(（](?P<inner>[^()（）]+)[)）]")  # noqa: RUF001
_WRAPPING = " \"'“”‘’«»*_`"  # noqa: RUF001
_RUN_CHARS_MAX = 600
"""Twice the longest supplied name, with its ticker."""


def _item_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    for separator in _SEPARATOR.finditer(text):
        spans.append((start, separator.start()))
        start = separator.end()
    spans.append((start, len(text)))
    return [(start, end) for start, end in spans if text[start:end].strip() not in ("", "and")]


def _bare(item: str) -> str:
    """An item without quotes, markers and the full stop that ends its field."""
    return item.strip(_WRAPPING).rstrip(".!?。" + _WRAPPING)


def _single_spaced(text: str) -> str:
    return " ".join(text.split())
