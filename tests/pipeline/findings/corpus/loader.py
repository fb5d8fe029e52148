"""Reads the written turns and pairs of this folder.

A turn is a text, or pieces of it with `null` for a second of listening, and what a reader of the
rules finds in it when it has `ended` by itself, was `cut`, or met a `stop`; `either` for ended and
cut. Of a finding (`F`: its holdings) is told what is certain; of evidence (`E`) its lines, counted
from 1, or its `text`. `any` is one record of which the rules leave the text or the kind open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pipeline.records import Claim, Holding, Likeness

_FOLDER = Path(__file__).parent

_BLOCK = (
    "Holdings: {}\nEvidence: The slide shows a new building.\nImplication: Capacity may grow.\n"
    "Uncertainty: No date was given.\nVerify: Ask for the date.\n"
)

ENDINGS = ("ended", "cut", "stop")


@dataclass(frozen=True, kw_only=True)
class Told:
    """One record that a reader finds; none where the rules leave something open."""

    holding_ids: tuple[str, ...] | None
    """None for evidence."""
    is_either: bool
    """Whether the rules leave open what kind it is."""
    is_closed: bool
    unmatched: tuple[str, ...]
    ambiguous: tuple[str, ...]
    is_heard: bool | None
    fields: tuple[str, ...] | None
    text: str | None
    marks: frozenset[str]
    no_marks: frozenset[str]
    without: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One written turn with one way to end."""

    name: str
    group: str
    holdings: tuple[Holding, ...]
    pieces: tuple[str | None, ...]
    ending: str
    told: tuple[Told, ...]

    @property
    def text(self) -> str:
        return "".join(piece for piece in self.pieces if piece is not None)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two claims and how they stand to each other."""

    name: str
    claims: tuple[Claim, Claim]
    likeness: Likeness
    miss: str | None
    """Why the code answers otherwise, where that is known."""


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case for path in sorted((_FOLDER / "turns").iterdir()) for case in _cases(path))


@cache
def pairs() -> tuple[Pair, ...]:
    return tuple(map(_pair, _read(_FOLDER / "pairs.yaml")))


def turns() -> int:
    """How many turns are written, however many ways each ends."""
    return len({(case.group, case.name) for case in cases()})


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def portfolios() -> Mapping[str, tuple[Holding, ...]]:
    return {
        name: tuple(
            Holding(
                id=key,
                name=full_name,
                ticker=ticker,
                exchange=exchange,
                currency="USD",
                asset_type="equity",
                weight_pct=Decimal(1),
                aliases=tuple(aliases),
            )
            for key, full_name, ticker, exchange, *aliases in rows
        )
        for name, rows in _read(_FOLDER / "portfolios.yaml").items()
    }


def _cases(path: Path) -> Iterator[Case]:
    for row in _read(path):
        text = _BLOCK.format(row["holdings"]) if "holdings" in row else row.get("text")
        pieces = tuple(row["pieces"]) if text is None else _pieces(text)
        whole = "".join(piece for piece in pieces if piece is not None)
        for ending in ENDINGS:
            told = row.get(ending, row.get("either") if ending != "stop" else None)
            if told is not None:
                yield Case(
                    name=row["name"],
                    group=path.stem,
                    holdings=portfolios()[row["portfolio"]],
                    pieces=pieces,
                    ending=ending,
                    told=tuple(_told(entry, whole) for entry in told),
                )


PIECE_CHARS = 40
"""About what 18 tokens say."""


def _pieces(text: str) -> tuple[str, ...]:
    return tuple(text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


def _told(entry: Mapping[str, Any], whole: str) -> Told:
    lines = entry.get("lines", entry.get("E"))
    text = entry.get("text")
    if lines not in (None, "any"):
        first, last = map(int, str(lines).split("-"))
        written = whole.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        text = "\n".join(line.rstrip() for line in written[first - 1 : last]).rstrip()
    holding_ids = entry.get("F")
    return Told(
        holding_ids=None if holding_ids is None else tuple(holding_ids),
        is_either=bool(entry.get("any")),
        is_closed=not entry.get("open", False),
        unmatched=tuple(entry.get("unmatched", ())),
        ambiguous=tuple(entry.get("ambiguous", ())),
        is_heard=entry.get("heard"),
        fields=None if "fields" not in entry else tuple(entry["fields"]),
        text=text,
        marks=frozenset(entry.get("marks", ())),
        no_marks=frozenset(entry.get("no_marks", ())),
        without=tuple(entry.get("without", ())),
    )


def _pair(row: Mapping[str, Any]) -> Pair:
    [kind] = [kind for kind in Likeness if kind.value in row]
    first, second = (
        Claim(holding_ids=tuple(ids), evidence=evidence, implication=implication)
        for ids, (evidence, implication) in zip(
            row.get("holdings", (["A"], ["A"])), row[kind.value], strict=True
        )
    )
    return Pair(name=row["name"], claims=(first, second), likeness=kind, miss=row.get("miss"))
