"""Whether two findings say the same, the same with other terms, or something else."""

from __future__ import annotations

from rapidfuzz import fuzz

from pipeline.findings.material import Statement, has_other_topic, has_same_terms
from pipeline.findings.statements import read_statement
from pipeline.records import Claim, Likeness

CLOSE_MIN = 60.0
"""Wordings at least this alike, of 100, are close.

Chosen on the 250 written pairs of tests/pipeline/findings/corpus, by `token_sort_ratio` in steps of
5 (share of pairs with the right answer of three; recall of `same`; no two were wrongly `same`):
40 98.4% 96%, 50 98.4% 96%, 55 98.4% 96%, 60 98.0% 96%, 65 97.2% 96%, 70 96.0% 96%, 75 93.2% 93%,
80 92.0% 92%, 90 88.0% 88%. The vocabulary was written on the same pairs. The strict end of what is
flat was taken, so that a brief's changes pair no strangers.
"""


def likeness(a: Claim, b: Claim) -> Likeness:
    """How two claims stand to each other; any two have an answer, whichever comes first.

    Findings of other holdings are other ones. Of the same holdings, both the evidence and the
    implication must be close in wording, with figures, periods, names and directions left aside;
    then the material terms decide.
    """
    if a.holding_ids != b.holding_ids and set(a.holding_ids) != set(b.holding_ids):
        return Likeness.OTHER
    if a.evidence == b.evidence and a.implication == b.implication:
        return Likeness.SAME
    evidence = read_statement(a.evidence), read_statement(b.evidence)
    if not _is_close(*evidence):
        return Likeness.OTHER
    implication = read_statement(a.implication), read_statement(b.implication)
    if not _is_close(*implication):
        return Likeness.OTHER
    if has_other_topic(*evidence) or has_other_topic(*implication):
        return Likeness.OTHER
    if has_same_terms(*evidence) and has_same_terms(*implication):
        return Likeness.SAME
    return Likeness.CHANGED


def _is_close(a: Statement, b: Statement) -> bool:
    # `token_sort_ratio`, of words that stand sorted already; it looks at the lengths first.
    return a.wording == b.wording or fuzz.ratio(a.wording, b.wording, score_cutoff=CLOSE_MIN) > 0
