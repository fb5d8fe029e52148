"""What is new, gone or changed since another brief."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.brief.document import (
    Change,
    ChangeKind,
    Comparison,
    ComparisonBasis,
    EarlierText,
    FindingEntry,
    HoldingChanges,
    HoldingName,
    HoldingRef,
)
from pipeline.brief.past import PastBrief, PastFinding
from pipeline.records import Claim, Likeness

Judge = Callable[[Claim, Claim], Likeness]
"""How two claims stand to each other; pure."""

JUDGED_MAX = 200
"""Claims of the same holdings that one is held against, the nearest in time: pairs grow with the
square of a brief, and one judgement takes some 30 µs. Equal words are found however far apart."""


@dataclass(kw_only=True)
class _Group:
    """The findings of both briefs that name the same holdings."""

    now: list[FindingEntry] = field(default_factory=list)
    before: list[PastFinding] = field(default_factory=list)


def compare(
    findings: Sequence[FindingEntry],
    past: PastBrief,
    basis: ComparisonBasis,
    *,
    holdings: Mapping[str, HoldingRef],
    likeness: Judge,
) -> Comparison:
    """`holdings` are the portfolio's, in the brief's order."""
    groups: dict[frozenset[str], _Group] = {}
    for finding in findings:
        groups.setdefault(_ids(finding), _Group()).now.append(finding)
    for earlier in past.findings:
        groups.setdefault(_ids(earlier), _Group()).before.append(earlier)
    names = _names(past, holdings)
    rank = {id: position for position, id in enumerate(names)}
    unchanged = 0
    changed: list[HoldingChanges] = []
    for ids in sorted(groups, key=lambda ids: sorted(rank[id] for id in ids)):
        ordered = tuple(sorted(ids, key=rank.__getitem__))
        pairing = _pair(groups[ids], likeness)
        unchanged += len(pairing.same)
        if changes := _changes(groups[ids], pairing, ordered):
            named = tuple(names[id] for id in ordered)
            changed.append(HoldingChanges(holdings=named, changes=changes))
    return Comparison(
        basis=basis,
        title=past.title,
        job_id=past.job_id,
        revision=past.revision,
        sha256=past.sha256,
        unchanged=unchanged,
        groups=tuple(changed),
    )


def claim_of(finding: FindingEntry) -> Claim:
    return Claim(
        holding_ids=tuple(holding.id for holding in finding.holdings),
        evidence=finding.observed,
        implication=finding.implication,
    )


def _ids(finding: FindingEntry | PastFinding) -> frozenset[str]:
    return frozenset(holding.id for holding in finding.holdings)


def _names(past: PastBrief, holdings: Mapping[str, HoldingRef]) -> dict[str, HoldingName]:
    """Today's name where there is one; the rest as the earlier brief has them, by id."""
    names = {id: HoldingName(id=id, name=ref.name) for id, ref in holdings.items()}
    earlier = {holding.id: holding for finding in past.findings for holding in finding.holdings}
    return {**names, **{id: earlier[id] for id in sorted(earlier.keys() - names.keys())}}


@dataclass(frozen=True, kw_only=True)
class _Pairing:
    """Positions in `now` to positions in `before`, each used once."""

    same: Mapping[int, int]
    changed: Mapping[int, int]


def _pair(group: _Group, likeness: Judge) -> _Pairing:
    """What is the same is settled first, so that no changed one takes its place."""
    now = [claim_of(finding) for finding in group.now]
    before = [finding.claim for finding in group.before]
    same = _equal(now, before)
    open_before = [at for at in range(len(before)) if at not in set(same.values())]
    near: list[tuple[int, int]] = []
    for at, claim in enumerate(now):
        if at in same:
            continue
        for other in _nearest(open_before, at):
            match likeness(before[other], claim):
                case Likeness.SAME:
                    same[at] = other
                    open_before.remove(other)
                    break
                case Likeness.CHANGED:
                    near.append((at, other))
                case Likeness.OTHER:
                    pass
    changed: dict[int, int] = {}
    taken = set(same.values())
    for at, other in near:
        if at not in same and at not in changed and other not in taken:
            changed[at] = other
            taken.add(other)
    return _Pairing(same=same, changed=changed)


def _nearest(places: Sequence[int], at: int) -> list[int]:
    """Of sorted places, the JUDGED_MAX around `at`, in their order."""
    middle = bisect_left(places, at)
    start = max(min(middle - JUDGED_MAX // 2, len(places) - JUDGED_MAX), 0)
    return list(places[start : start + JUDGED_MAX])


def _equal(now: Sequence[Claim], before: Sequence[Claim]) -> dict[int, int]:
    """The same words need no judge."""
    waiting: dict[tuple[str, str], list[int]] = {}
    for at, claim in enumerate(before):
        waiting.setdefault((claim.evidence, claim.implication), []).append(at)
    found: dict[int, int] = {}
    for at, claim in enumerate(now):
        if places := waiting.get((claim.evidence, claim.implication)):
            found[at] = places.pop(0)
    return found


def _changes(group: _Group, pairing: _Pairing, ids: tuple[str, ...]) -> tuple[Change, ...]:
    changed = [
        _change(ChangeKind.CHANGED, ids, group.now[at], group.before[other])
        for at, other in sorted(pairing.changed.items())
    ]
    new = [
        _change(ChangeKind.NEW, ids, finding, None)
        for at, finding in enumerate(group.now)
        if at not in pairing.same and at not in pairing.changed
    ]
    found_again = {*pairing.same.values(), *pairing.changed.values()}
    gone = [
        _change(ChangeKind.GONE, ids, None, earlier)
        for at, earlier in enumerate(group.before)
        if at not in found_again
    ]
    return (*new, *changed, *gone)


def _change(
    kind: ChangeKind, ids: tuple[str, ...], now: FindingEntry | None, before: PastFinding | None
) -> Change:
    return Change(
        kind=kind,
        holding_ids=ids,
        now_ref=None if now is None else now.ref,
        before_ref=None if before is None else before.ref,
        before=None
        if before is None
        else EarlierText(observed=before.observed, implication=before.implication),
    )
