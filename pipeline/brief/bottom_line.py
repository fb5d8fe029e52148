"""Which findings to read first."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from pipeline.brief import sentences, wording
from pipeline.brief.document import BottomLine, FindingEntry
from pipeline.records import NoteState

FINDINGS_MAX = 5
"""More is no bottom line."""

_DOUBTS = frozenset({"unclosed", "unmatched", "ambiguous"})


def choose(findings: Sequence[FindingEntry]) -> BottomLine:
    """By absolute weight, then completeness, then the order that `findings` come in."""
    eligible = [finding for finding in findings if _is_eligible(finding)]
    first = sorted(eligible, key=_rank)[:FINDINGS_MAX]
    return BottomLine(
        text=sentences.bottom_line(
            chosen=len(first), findings=len(findings), left_out=len(findings) - len(eligible)
        ),
        findings=tuple(finding.ref for finding in first),
    )


def _is_eligible(finding: FindingEntry) -> bool:
    is_order = any(mark.code == wording.TRADE_ORDER_CODE for mark in finding.marks)
    return finding.state is not NoteState.REJECTED and not is_order


def _rank(finding: FindingEntry) -> tuple[Decimal, int, bool]:
    weight = max(abs(holding.weight_pct) for holding in finding.holdings)
    doubts = sum(mark.code in _DOUBTS for mark in finding.marks)
    return -weight, doubts, not finding.source.frames
