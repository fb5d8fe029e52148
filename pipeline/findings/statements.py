"""A field of a finding, read for the comparison with another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.findings.material import Clause, Statement
from pipeline.findings.numerals import with_digits
from pipeline.findings.periods import take_periods
from pipeline.findings.quantities import Quantity, take_quantities
from pipeline.findings.spelling import plain_text
from pipeline.findings.vocabulary import (
    FRAMES,
    OPENERS,
    SMALL,
    WITHIN,
    WITHIN_CLASSES,
    WITHIN_SUBJECT,
    WITHIN_SUBJECTS,
    direction,
    is_negation,
    meaning,
    modality,
    subject,
)

STATEMENTS_KEPT = 8192
"""Texts whose terms are kept, so that each of a brief's 2,000 findings is read once."""


SHOUTED_SPACES_MIN = 4
"""In a longer text without a small letter, capitals name nothing; a shorter one may be codes."""

_KIND_SIGNS = {"quantity": "#", "period": "@", "turn": "^"}
_MARKS = "\ue000"
_TOKEN = re.compile(r"\ue000[\ue010-\ue019]+\ue001|[^\W_]+(?:'[^\W_]+)*|[.!?。！？;；,，、:]")  # noqa: RUF001
_TO_PRIVATE = str.maketrans("0123456789", "".join(chr(0xE010 + digit) for digit in range(10)))
_FROM_PRIVATE = {after: before for before, after in _TO_PRIVATE.items()}
_IDEOGRAPH = re.compile(r"[\u30a0-\u30ff\u3400-\u9fff]")
_CLAUSE_WORDS = frozenset(
    ["and", "while", "whereas", "but", "as", "although", "though", "und", "et", "y", "и"]
)
_COMPARING = frozenset(["beat", "miss", "above", "below"])
_SENTENCE_MARKS = frozenset(".!?。！？")  # noqa: RUF001
_CLAUSE_MARKS = _SENTENCE_MARKS | frozenset(";；,，、")  # noqa: RUF001


@dataclass(frozen=True, kw_only=True)
class _Item:
    """One word or term of a text, in order."""

    kind: str
    """`word`, `mark`, `quantity`, `period` or `turn`."""
    text: str
    """As written; of a term, what it says."""
    quantity: Quantity | None = None
    within: str = ""
    """For a direction or negation, the word that says it."""


@lru_cache(maxsize=STATEMENTS_KEPT)
def read_statement(text: str) -> Statement:
    """Reads a field of a finding; any text has a reading."""
    if text.isupper() and text.count(" ") >= SHOUTED_SPACES_MIN:
        text = text.casefold()
    items = _items(text)
    names = _names(items)
    words = [item.text.casefold().removesuffix("'s") for item in items if item.kind == "word"]
    words += [item.within for item in items if item.kind == "turn"]
    quantities = tuple(item.quantity for item in items if item.quantity is not None)
    plain = "" if text.isascii() else plain_text(text)
    modalities = {found for found in map(modality, words) if found is not None}
    modalities |= {
        found
        for found in (WITHIN_CLASSES[match[0]] for match in WITHIN.finditer(plain))
        if found in _WITHIN_MODALITIES
    }
    subjects = {found for found in map(subject, words) if found is not None}
    subjects |= {WITHIN_SUBJECTS[match[0]] for match in WITHIN_SUBJECT.finditer(plain)}
    return Statement(
        wording=_wording(items, frozenset(names)),
        quantities=quantities,
        periods=_sorted_neighbours(items),
        turns=_told_once(item.text for item in items if item.kind == "turn"),
        modalities=frozenset(modalities),
        names=names,
        words=frozenset(words),
        subjects=frozenset(subjects),
        owners=_owners(items),
        sides=_sides(items),
        content=_content(items, frozenset(names)),
        clauses=frozenset(Counter(_clauses(items)).items()),
    )


_WITHIN_MODALITIES = frozenset({"possible", "certain", "expected"})


def _items(text: str) -> list[_Item]:
    terms: list[_Item] = []

    def put(term: _Item) -> str:
        terms.append(term)
        return f"\ue000{str(len(terms) - 1).translate(_TO_PRIVATE)}\ue001"

    def put_period(period: str) -> str:
        return put(_Item(kind="period", text=period))

    def put_quantity(quantity: Quantity) -> str:
        return f" {put(_Item(kind='quantity', text=quantity.value, quantity=quantity))} "

    text = plain_text(text)
    if (digits := with_digits(text)) is not text:
        # Again, since aliases look for digits.
        text = plain_text(digits)
    text = take_quantities(take_periods(text, put_period), put_quantity)
    items: list[_Item] = []
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token[0] == _MARKS:
            items.append(terms[int(token[1:-1].translate(_FROM_PRIVATE))])
        elif not token[0].isalnum():
            items.append(_Item(kind="mark", text=token))
        else:
            items += _word_items(token)
    return items


def _word_items(token: str) -> list[_Item]:
    word = token.casefold()
    if is_negation(word):
        items = [_Item(kind="turn", text="not", within=word)]
    elif word.startswith("un") and direction(word) is None and direction(word[2:]) is not None:
        items = [
            _Item(kind="turn", text="not", within="un"),
            _Item(kind="turn", text=direction(word[2:]) or "", within=word[2:]),
        ]
    elif (way := direction(word)) is not None:
        items = [_Item(kind="turn", text=way, within=word)]
    elif token.isascii():
        items = [_Item(kind="word", text=token)]
    else:
        items = _written_together(token)
    return items


def _written_together(token: str) -> list[_Item]:
    items: list[_Item] = []
    end = 0
    for found in WITHIN.finditer(token):
        if found.start() > end:
            items.append(_Item(kind="word", text=token[end : found.start()]))
        if (name := WITHIN_CLASSES[found[0]]) not in _WITHIN_MODALITIES:
            items.append(_Item(kind="turn", text=name, within=found[0]))
        end = found.end()
    if token[end:]:
        items.append(_Item(kind="word", text=token[end:]))
    return items


def _wording(items: Iterable[_Item], names: frozenset[str]) -> str:
    words: list[str] = []
    for item in items:
        if item.kind == "word":
            word = item.text.casefold().removesuffix("'s")
            if word in names:
                words += ["&"] if words[-1:] != ["&"] else []
            elif word not in SMALL:
                words.append("~" if modality(word) else word)
        elif item.kind != "mark" and item.text != "not":
            words.append(_KIND_SIGNS[item.kind])
    return " ".join(sorted(words))


def _content(items: Iterable[_Item], names: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    for item in items:
        if item.kind != "word":
            continue
        word = item.text.casefold().removesuffix("'s")
        ideographs = _IDEOGRAPH.findall(word)
        if ideographs:
            found.update(ideographs)
        elif not (word in names or word in SMALL or word in FRAMES or modality(word)):
            found.add(meaning(word.removeprefix("ال")))
    return frozenset(found)


def _told_once(texts: Iterable[str]) -> tuple[str, ...]:
    told: list[str] = []
    for text in texts:
        if not told or told[-1] != text:
            told.append(text)
    return tuple(told)


def _sorted_neighbours(items: Sequence[_Item]) -> tuple[str, ...]:
    """Periods in order, those side by side sorted: `Q3 2026` is `2026 Q3`; each once."""
    groups: list[list[str]] = []
    is_beside = False
    for item in items:
        if item.kind == "period":
            if not is_beside:
                groups.append([])
            groups[-1].append(item.text)
            is_beside = True
        elif not (item.text in (",", "of", "the", "in", "for") and is_beside):
            is_beside = False
    return tuple(dict.fromkeys(period for group in groups for period in sorted(group)))


def _names(items: Sequence[_Item]) -> tuple[str, ...]:
    """Words of capitalised runs, tickers and codes, not a capital that only opens a sentence."""
    names: dict[str, None] = {}
    is_opening = True
    for position, item in enumerate(items):
        if item.kind == "mark":
            is_opening = item.text in _SENTENCE_MARKS or item.text == ":" or is_opening
            continue
        if item.kind == "word":
            word = item.text.removesuffix("'s")
            if _is_name(word, is_opening=is_opening, after=items[position + 1 : position + 2]):
                names[word.casefold()] = None
        is_opening = False
    return tuple(names)


def _is_name(word: str, *, is_opening: bool, after: Sequence[_Item]) -> bool:
    if any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
        return True
    if not any(map(str.isupper, word)) or word == "I":
        return False
    if word[1:] != word[1:].lower() or not is_opening:
        return True
    folded = word.casefold()
    if folded in OPENERS or folded.endswith("ly") or subject(folded) or modality(folded):
        return False
    is_before_name = bool(after) and after[0].kind == "word" and after[0].text[:1].isupper()
    return is_before_name or len(word) > 1


def _owners(items: Sequence[_Item]) -> Mapping[str, int]:
    """For each word that comes once: the next quantity of its clause, else the one before."""
    owners: dict[str, int] = {}
    seen: Counter[str] = Counter()
    waiting: list[str] = []
    count = 0
    for item in items:
        if item.kind == "quantity":
            owners.update(dict.fromkeys(waiting, count))
            waiting = []
            count += 1
        elif (item.kind == "mark" and item.text in _CLAUSE_MARKS) or item.text in _CLAUSE_WORDS:
            owners.update(dict.fromkeys(waiting, count - 1))
            waiting = []
        elif item.kind != "mark":
            word = item.text.casefold()
            if word not in SMALL:
                seen[word] += 1
                waiting.append(word)
    owners.update(dict.fromkeys(waiting, count - 1))
    return {word: owner for word, owner in owners.items() if seen[word] == 1 and owner >= 0}


def _sides(items: Sequence[_Item]) -> Mapping[str, int]:
    """For each word that comes once in a clause with a comparison: on which side it stands."""
    sides: dict[str, int] = {}
    seen: Counter[str] = Counter()
    before: list[str] = []
    side = 0
    for item in items:
        if (item.kind == "mark" and item.text in _CLAUSE_MARKS) or item.text in _CLAUSE_WORDS:
            before, side = [], 0
        elif item.text == "than" or (item.kind == "turn" and item.text in _COMPARING):
            sides.update(dict.fromkeys(before, 0))
            before, side = [], 1
        elif item.kind == "word" and (word := item.text.casefold()) not in SMALL:
            seen[word] += 1
            if side:
                sides[word] = 1
            else:
                before.append(word)
    return {word: side for word, side in sides.items() if seen[word] == 1}


def _clauses(items: Sequence[_Item]) -> Iterable[Clause]:
    part: list[_Item] = []
    for item in [*items, _Item(kind="mark", text=".")]:
        is_end = item.text in (_CLAUSE_MARKS if item.kind == "mark" else _CLAUSE_WORDS)
        if not is_end:
            part.append(item)
        elif part:
            yield _clause(part)
            part = []


def _clause(items: Sequence[_Item]) -> Clause:
    words = (item.text.casefold() for item in items if item.kind == "word")
    return (
        tuple(item.quantity for item in items if item.quantity is not None),
        tuple(item.text for item in items if item.kind == "period"),
        tuple(item.text for item in items if item.kind == "turn"),
        tuple(word for word in words if word not in SMALL),
    )
