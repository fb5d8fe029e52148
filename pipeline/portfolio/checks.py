"""What must hold for holdings from any file: present, bounded, unique, adding up to 100 %."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from decimal import Decimal

from pipeline.characters import control_character, quoted
from pipeline.decimals import decimal_text
from pipeline.errors import Problem
from pipeline.portfolio.rows import FAULTY, REQUIRED, Faulty, Row
from pipeline.records import Holding

HOLDINGS_MAX = 500
"""Far more than fit into the prompt's 4,000 tokens, which the engine counts exactly."""

ALIASES_MAX = 16

TEXT_CHARS_MAX = {
    "id": 64,
    "name": 200,
    "ticker": 32,
    "exchange": 64,
    "currency": 3,
    "asset_type": 64,
    "aliases": 200,
}
"""Longest text of each field, in characters."""

WEIGHT_TOTAL_PCT = Decimal(100)

WEIGHT_TOLERANCE_PCT = Decimal("0.5")
"""What rounding can do to a hundred weights written to two decimals; a missing 1 % still shows."""


def checked_holdings(rows: Sequence[Row]) -> tuple[tuple[Holding, ...], list[Problem]]:
    """The holdings, which mean something only where there is no problem."""
    problems: list[Problem] = []
    if not rows:
        problems.append(_problem("portfolio_empty", "", "it has no holding; give at least one"))
    if len(rows) > HOLDINGS_MAX:
        message = f"it has {len(rows)} holdings; at most {HOLDINGS_MAX} are accepted"
        return (), [_problem("portfolio_too_large", "", message)]
    holdings = [_Reader(row, problems).holding() for row in rows]
    _check_unique(rows, holdings, problems)
    if rows and all(isinstance(row.values["weight_pct"], Decimal) for row in rows):
        _check_total(sum((holding.weight_pct for holding in holdings), Decimal(0)), problems)
    return tuple(holdings), problems


class _Reader:
    """Reads one row's fields, noting what is wrong with them."""

    def __init__(self, row: Row, problems: list[Problem]) -> None:
        self._row = row
        self._problems = problems

    def holding(self) -> Holding:
        weight = self._row.values["weight_pct"]
        if weight is None:
            self._note("field_missing", "weight_pct", "no weight; give one in percent")
        return Holding(
            id=self._text("id") or "",
            name=self._text("name") or "",
            ticker=self._text("ticker"),
            exchange=self._text("exchange"),
            currency=self._currency(),
            asset_type=self._text("asset_type") or "",
            weight_pct=weight + 0 if isinstance(weight, Decimal) else Decimal(0),
            aliases=self._aliases(),
        )

    def _text(self, name: str) -> str | None:
        value = self._row.values[name]
        text = value.strip() if isinstance(value, str) else ""
        if not text:
            if name in REQUIRED and value is not FAULTY:
                self._note("field_missing", name, f"no {name}; every holding has one")
            return None
        self._check_text(name, text)
        return text

    def _currency(self) -> str:
        text = self._text("currency")
        if text is None:
            return ""
        # `GBp` is pence: only a spelling in one case can mean the code itself.
        code = text.upper() if text in (text.upper(), text.lower()) else text
        known = _currency_codes()
        if code not in known:
            near = difflib.get_close_matches(code.upper(), sorted(known), n=2)
            hint = f", for example {' or '.join(near)}" if near else ""
            message = f"{quoted(text)} is no ISO 4217 currency; give three letters{hint}"
            self._note("currency_unknown", "currency", message)
        return code

    def _aliases(self) -> tuple[str, ...]:
        value = self._row.values["aliases"]
        if value is None or isinstance(value, Faulty) or not isinstance(value, tuple):
            return ()
        aliases = tuple(alias.strip() for alias in value)
        if len(aliases) > ALIASES_MAX:
            message = f"{len(aliases)} aliases; at most {ALIASES_MAX} are accepted"
            self._note("too_many_aliases", "aliases", message)
        for alias in aliases:
            if alias:
                self._check_text("aliases", alias)
            else:
                self._note("field_missing", "aliases", "an alias is empty; leave it out")
        return tuple(dict.fromkeys(aliases))

    def _check_text(self, name: str, text: str) -> None:
        most = TEXT_CHARS_MAX[name]
        if len(text) > most and name != "currency":
            message = f"it has {len(text)} characters; at most {most} are accepted"
            self._note("text_too_long", name, message)
        found = control_character(text)
        if found is not None:
            self._note("text_control_character", name, f"{found}; give plain text on one line")

    def _note(self, code: str, name: str, message: str) -> None:
        self._problems.append(_problem(code, self._row.where(name), message))


def _currency_codes() -> frozenset[str]:
    # Loading the tables takes longer than everything else here; most processes never need them.
    import pycountry

    return frozenset(currency.alpha_3 for currency in pycountry.currencies)


def _check_unique(
    rows: Sequence[Row], holdings: Sequence[Holding], problems: list[Problem]
) -> None:
    def check(name: str, key: Callable[[Holding], object], code: str, what: str) -> None:
        first: dict[object, Row] = {}
        for row, holding in zip(rows, holdings, strict=True):
            value = key(holding)
            if not value:
                continue
            if value in first:
                message = f"the same {what} as {first[value].where(name)}; it must be unique"
                problems.append(_problem(code, row.where(name), message))
            else:
                first[value] = row

    check("id", lambda holding: holding.id, "id_duplicate", "id")
    check("ticker", _listing, "ticker_duplicate", "ticker and exchange")


def _listing(holding: Holding) -> tuple[str, str] | None:
    if holding.ticker is None:
        return None
    return holding.ticker.upper(), (holding.exchange or "").casefold()


def _check_total(total: Decimal, problems: list[Problem]) -> None:
    if abs(total - WEIGHT_TOTAL_PCT) <= WEIGHT_TOLERANCE_PCT:
        return
    message = (
        f"the weights total {decimal_text(total)} %; "
        f"100 % is accepted, within {WEIGHT_TOLERANCE_PCT} for rounding"
    )
    if abs(total * 100 - WEIGHT_TOTAL_PCT) <= 10 * WEIGHT_TOLERANCE_PCT:
        message += "; they look like fractions of 1: give percent, 25 and not 0.25"
    problems.append(_problem("weights_total", "", message))


def _problem(code: str, where: str, message: str) -> Problem:
    return Problem(code=code, where=where, message=message)
