"""Two blocks as the prompt asks for them, and what a reader of the rules finds in a turn."""

from __future__ import annotations

from dataclasses import dataclass

FIVE = (
    "Holdings: Acme Corp\nEvidence: Revenue was 5.1bn.\nImplication: Margins may rise.\n"
    "Uncertainty: One quarter only.\nVerify: Read the filing."
)
OTHER = FIVE.replace("Acme Corp", "TSLA").replace("5.1bn", "9.9bn")


@dataclass(frozen=True)
class F:
    """A finding."""

    ids: tuple[str, ...]
    is_closed: bool = True
    unmatched: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


@dataclass(frozen=True)
class E:
    """Evidence."""

    text: str
