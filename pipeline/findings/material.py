"""The material terms of a text: what two findings must have in common to say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.findings.quantities import Quantity

EXTRA_WORDS_MAX = 3
"""Words of its own that one of two like texts may have; more of them tell more."""

FORM_SHARE = 0.6
"""Two words of which this part of the longer is alike from the start are forms of one word."""

Clause = tuple[tuple[object, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One text as it is compared."""

    wording: str
    """Its words sorted, case-folded, with a sign in place of each number, period, direction."""
    quantities: tuple[Quantity, ...]
    periods: tuple[str, ...]
    turns: tuple[str, ...]
    """Negations and directions in order; one that comes again at once is told once."""
    modalities: frozenset[str]
    names: tuple[str, ...]
    """Words of names, tickers and codes, case-folded, each once."""
    words: frozenset[str]
    """Every word, case-folded."""
    subjects: frozenset[str]
    """What is measured, such as `revenue`."""
    owners: Mapping[str, int]
    """To which quantity, by its number, a word belongs that the text has once."""
    content: frozenset[str]
    """What its other words mean; of scripts without spaces, their ideographs."""
    sides: Mapping[str, int]
    """Of a word of a comparison that the text has once: 0 before `exceed` or `than`, 1 after it."""
    clauses: frozenset[tuple[Clause, int]]
    """Its clauses without their order, each with how often it comes."""


def has_other_topic(a: Statement, b: Statement) -> bool:
    """Whether each measures what the other does not, or they have no word in common.

    Revenue here and profit there are no change of one thing, however like the sentences are.
    """
    if a.content and b.content and a.content.isdisjoint(b.content):
        return True
    return bool(a.subjects - b.subjects) and bool(b.subjects - a.subjects)


def has_same_terms(a: Statement, b: Statement) -> bool:
    """Whether both say the same figures, periods, names, directions, negations and modalities.

    The order counts within each kind, since `from 4% to 5%` is not `from 5% to 4%`; it does not
    where both texts have the same clauses in another order.
    """
    if a.clauses == b.clauses:
        return a.modalities == b.modalities
    return (
        # What differs most often comes first: a brief holds every finding against many.
        _are_same_quantities(a.quantities, b.quantities)
        and a.periods == b.periods
        and a.turns == b.turns
        and a.modalities == b.modalities
        and b.words.issuperset(a.names)
        and a.words.issuperset(b.names)
        and _in_common(a.names, b.names) == _in_common(b.names, a.names)
        and not _is_exchanged(a.owners, b.owners)
        and not _is_exchanged(a.sides, b.sides)
        and not _is_reworded(a.content, b.content)
    )


def _are_same_quantities(a: Sequence[Quantity], b: Sequence[Quantity]) -> bool:
    if a == b:
        return True
    if len(a) != len(b):
        return False
    if all(
        one.value == other.value and one.unit == other.unit for one, other in zip(a, b, strict=True)
    ):
        return all(
            one.role == other.role or not (one.role and other.role)
            for one, other in zip(a, b, strict=True)
        )
    # `to 5% from 4%` is `from 4% to 5%`: the words say which is which.
    roles = {one.role for one in a}
    return "" not in roles and len(roles) == len(a) and Counter(a) == Counter(b)


def _in_common(names: Sequence[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name in known]


def _is_reworded(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether each has a word that the other lacks in every form: `inflows` where it is `outflows`.

    No list knows every pair of opposites, so one word in the place of another is another claim.
    A word more is not, unless there are many.
    """
    only_a = [word for word in a - b if not any(_is_form(word, other) for other in b)]
    only_b = [word for word in b - a if not any(_is_form(word, other) for other in a)]
    return bool(only_a and only_b) or len(only_a) + len(only_b) > EXTRA_WORDS_MAX


def _is_form(a: str, b: str) -> bool:
    """Whether two words begin alike, as forms of one word do; `utilise` begins like `utilize`."""
    a, b = a.replace("s", "z"), b.replace("s", "z")
    shortest = min(len(a), len(b))
    same = next((place for place in range(shortest) if a[place] != b[place]), shortest)
    return same >= 3 and same >= max(len(a), len(b)) * FORM_SHARE


def _is_exchanged(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    """Whether two words have changed places: whose is 5%, whose is 3%, and which exceeds which?"""
    moved = {(a[word], b[word]) for word in a.keys() & b.keys() if a[word] != b[word]}
    return any((there, here) in moved for here, there in moved)
