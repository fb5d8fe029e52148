"""A portfolio file, JSON or CSV, read into holdings or refused with everything that is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.decimals import decimal_text
from pipeline.errors import InputRefused, Problem
from pipeline.portfolio.checks import checked_holdings
from pipeline.portfolio.csv_rows import read_csv
from pipeline.portfolio.encoding import decode
from pipeline.portfolio.json_rows import read_json
from pipeline.portfolio.rows import Table
from pipeline.records import Holding

FILE_BYTES_MAX = 1024 * 1024
"""Five hundred holdings with every field at its longest fit in half of this."""

PROBLEMS_MAX = 200
"""More are not listed: by then the file as a whole is of another kind."""


@dataclass(frozen=True, kw_only=True)
class Portfolio:
    """What an analyst holds, as supplied."""

    holdings: tuple[Holding, ...]
    """In the order of the file."""
    sha256: str
    """Digest of the content, the same for any order and either format."""
    ignored_columns: tuple[str, ...] = ()
    """Headers of CSV columns that were not read, for the person who supplied them."""


def read_portfolio(data: bytes, *, filename: str | None) -> Portfolio:
    """Raises InputRefused with all problems at once.

    The name decides between JSON and CSV where it ends in `.json`, `.csv` or `.tsv`, else the first
    character does.
    """
    table = _read_table(data, filename=filename)
    holdings, problems = checked_holdings(table.rows)
    problems = [*table.problems, *problems]
    if problems:
        raise InputRefused(*_bounded(problems))
    return Portfolio(
        holdings=holdings, sha256=holdings_sha256(holdings), ignored_columns=table.ignored_columns
    )


def holdings_sha256(holdings: Sequence[Holding]) -> str:
    """Digest over the holdings' canonical JSON: ordered by id, weights without trailing zeros."""
    content = [
        {
            "aliases": list(holding.aliases),
            "asset_type": holding.asset_type,
            "currency": holding.currency,
            "exchange": holding.exchange,
            "id": holding.id,
            "name": holding.name,
            "ticker": holding.ticker,
            "weight_pct": decimal_text(holding.weight_pct),
        }
        for holding in sorted(holdings, key=lambda holding: holding.id)
    ]
    canonical = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read_table(data: bytes, *, filename: str | None) -> Table:
    if len(data) > FILE_BYTES_MAX:
        raise _refused(
            "portfolio_too_large",
            f"the file has {len(data)} bytes; at most {FILE_BYTES_MAX} are accepted",
        )
    if data[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        raise _refused(
            "portfolio_format", "this is a spreadsheet file; export it as CSV UTF-8 or give JSON"
        )
    text = decode(data)
    if not text.strip():
        raise _refused(
            "portfolio_empty", "the file is empty; give JSON, or CSV with a header, with holdings"
        )
    ending = (filename or "").lower().rpartition(".")[2]
    is_json = ending == "json" or (
        ending not in ("csv", "tsv") and text.lstrip().startswith(("[", "{"))
    )
    return read_json(text) if is_json else read_csv(text)


def _refused(code: str, message: str) -> InputRefused:
    return InputRefused(Problem(code=code, where="", message=message))


def _bounded(problems: list[Problem]) -> list[Problem]:
    if len(problems) <= PROBLEMS_MAX:
        return problems
    rest = len(problems) - PROBLEMS_MAX
    more = Problem(
        code="more_problems", where="", message=f"{rest} more problems are not listed; mend these"
    )
    return [*problems[:PROBLEMS_MAX], more]
