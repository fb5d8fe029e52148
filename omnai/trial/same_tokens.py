"""Where decoders that were fed the same tokens would have said another one, told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnai import display
from pipeline.engine.minicpm.fast.agreement import Against, Agreement, Tie

OFFICIAL, BATCHED, FAST, FLOAT32 = "official", "official in batches", "fast", "official in float32"


@dataclass(frozen=True, kw_only=True)
class NearTie:
    """A read at which the likeliest token is another one; differences of scores and their shares
    of the scores' spread."""

    read: int
    margin: float
    """Between the two highest scores of what is measured against."""
    margin_share: float
    gap: float
    """By how much that one prefers its token to the other's."""
    gap_share: float
    other_margin: float
    """Between the two highest scores of the other one."""
    other_margin_share: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One way of computing against another, over the same tokens."""

    of: str
    against: str
    distance: float
    """Root mean square of the scores' differences, as a share of their spread."""
    differ: tuple[NearTie, ...]


@dataclass(frozen=True, kw_only=True)
class SameTokens:
    """Every way over every read."""

    reads: int
    spread: float
    """Standard deviation of the scores."""
    measured: tuple[Measured, ...]


def same_tokens(agreement: Agreement) -> SameTokens:
    return SameTokens(
        reads=agreement.reads,
        spread=agreement.spread,
        measured=tuple(
            Measured(
                of=of,
                against=against,
                distance=found.distance,
                differ=tuple(_near_tie(tie, agreement.spread) for tie in found.differ),
            )
            for of, against, found in _pairs(agreement)
        ),
    )


def show_same_tokens(same: SameTokens) -> None:
    display.say(
        f"{same.reads:,} reads of the same tokens, scores with a spread of {same.spread:,.4f}:"
    )
    for each in same.measured:
        display.say(
            f"  {each.of} from {each.against}: {each.distance:.5f} of the spread,"
            f" another token in {len(each.differ):,}"
        )
        for tie in each.differ:
            display.say(
                f"    read {tie.read:,}: the best two {tie.margin:.4f} apart"
                f" ({tie.margin_share:.5f} of the spread), the other's {tie.other_margin:.4f}"
                f" ({tie.other_margin_share:.5f}); the two tokens {tie.gap:.4f}"
                f" ({tie.gap_share:.5f})"
            )
    if all(each.against != FLOAT32 for each in same.measured):
        display.say("  no room on the device for the language model in float32 beside this one")


def _pairs(agreement: Agreement) -> Iterator[tuple[str, str, Against]]:
    yield FAST, OFFICIAL, agreement.fast
    yield BATCHED, OFFICIAL, agreement.batched
    if agreement.exact is not None:
        yield FAST, FLOAT32, agreement.exact.fast
        yield OFFICIAL, FLOAT32, agreement.exact.official
        yield BATCHED, FLOAT32, agreement.exact.batched


def _near_tie(tie: Tie, spread: float) -> NearTie:
    return NearTie(
        read=tie.read,
        margin=tie.margin,
        margin_share=tie.margin / spread,
        gap=tie.gap,
        gap_share=tie.gap / spread,
        other_margin=tie.other_margin,
        other_margin_share=tie.other_margin / spread,
    )
