"""Findings that say the same, brought together under the first of them."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.brief.changes import JUDGED_MAX, Judge
from pipeline.records import Finding, Likeness


def collapse(findings: Iterable[Finding], likeness: Judge) -> list[list[Finding]]:
    """Each list is one claim, its first occurrence in front. `findings` come in order of time.

    Every one is held against the first of a claim, never against a repeat: a chain of small steps
    would otherwise end at something else.
    """
    claims: dict[frozenset[str], list[list[Finding]]] = {}
    in_words: dict[tuple[frozenset[str], str, str], list[Finding]] = {}
    firsts: list[list[Finding]] = []
    for finding in findings:
        ids = frozenset(finding.holding_ids)
        words = ids, finding.evidence, finding.implication
        if (same := in_words.get(words)) is None:
            same = _alike(finding, claims.setdefault(ids, [])[-JUDGED_MAX:], likeness)
            if same is None:
                same = []
                claims[ids].append(same)
                firsts.append(same)
            in_words[words] = same
        same.append(finding)
    return firsts


def _alike(
    finding: Finding, claims: Iterable[list[Finding]], likeness: Judge
) -> list[Finding] | None:
    claim = finding.claim
    for same in claims:
        if likeness(same[0].claim, claim) is Likeness.SAME:
            return same
    return None
