"""One holding as a file gives it, before it is checked, with the name of each of its places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from pipeline.errors import Problem

FIELDS = ("id", "name", "ticker", "exchange", "currency", "asset_type", "weight_pct", "aliases")
"""What a holding has, by the names that JSON uses."""

REQUIRED = ("id", "name", "currency", "asset_type", "weight_pct")
"""Cash and bonds may lack a ticker and an exchange; nothing lacks these."""


class Faulty:
    """Stands for a value that was there and has been refused already."""


FAULTY = Faulty()

Value = str | Decimal | tuple[str, ...] | Faulty | None
"""None where the file gives nothing."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The values of one holding, each of the right type or FAULTY."""

    values: Mapping[str, Value]
    where: Callable[[str], str]
    """Names the place of a field, for a problem."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a file gave."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    ignored_columns: tuple[str, ...] = ()
