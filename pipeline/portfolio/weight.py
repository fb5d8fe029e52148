"""A weight in percent, as people and programs write it, to an exact decimal."""

from __future__ import annotations

import re
from decimal import Decimal

TEXT_CHARS_MAX = 28
"""As many digits as decimals keep exactly when they are added; Python's own floats need 25."""

WEIGHT_ABS_MAX_PCT = Decimal(10_000)
"""A hundred times the portfolio: far past any leverage, small enough to add up exactly."""

ACCEPTED = "a number in percent such as 12.5, or -3 for a short"

_JSON_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_GROUP_MARKS = re.compile("(?<=\\d)[ \u00a0\u202f'\u2019](?=\\d{3}(?!\\d))")
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_GROUPED = {
    mark: re.compile(rf"[+-]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+", re.ASCII) for mark in ",."
}
_NOT_FINITE = re.compile(r"[+-]?(?:s?nan\d*|inf|infinity)", re.IGNORECASE)


class WeightRefused(ValueError):
    """Not a weight; carries the problem's code and sentence."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def weight_from_program(text: str) -> Decimal:
    """A number as JSON writes it, exact in every digit."""
    _check(text)
    if not _JSON_NUMBER.fullmatch(text):
        raise WeightRefused("weight_malformed", f"it is not a number; give {ACCEPTED}")
    return _bounded(Decimal(text))


def weight_from_person(text: str, *, has_decimal_comma: bool) -> Decimal:
    """A number as spreadsheets write it: `12.5 %`, `1,234.5`, `(3.0)`, and `12,5` where asked."""
    _check(text)
    digits = text.replace("\u2212", "-").replace("%", "", 1).strip()
    if digits.startswith("(") and digits.endswith(")") and digits[1:2] not in ("-", "+"):
        digits = "-" + digits[1:-1].replace("%", "", 1).strip()
    digits = _GROUP_MARKS.sub("", digits)
    whole, mark, fraction = _parted(digits, has_decimal_comma=has_decimal_comma)
    if mark and not fraction.isdecimal():
        whole = ""
    for grouping in ",.":
        if grouping != mark and _GROUPED[grouping].fullmatch(whole):
            whole = whole.replace(grouping, "")
    number = f"{whole}.{fraction}" if mark else whole
    if not _PLAIN.fullmatch(number):
        comma = "" if has_decimal_comma else "; a decimal comma needs semicolons between columns"
        raise WeightRefused("weight_malformed", f"it is not a number; give {ACCEPTED}{comma}")
    return _bounded(Decimal(number))


def _parted(digits: str, *, has_decimal_comma: bool) -> tuple[str, str, str]:
    """The number before and after its decimal mark, and the mark."""
    comma, dot = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and dot >= 0:
        is_comma = comma > dot and has_decimal_comma
        return _split(digits, "," if is_comma else ".")
    if comma >= 0 and has_decimal_comma:
        return _split(digits, ",")
    if dot >= 0 and (digits.count(".") == 1 or not has_decimal_comma):
        return _split(digits, ".")
    return digits, "", ""


def _split(digits: str, mark: str) -> tuple[str, str, str]:
    whole, _, fraction = digits.rpartition(mark)
    if whole in ("", "-", "+"):
        whole += "0"
    return whole, mark, fraction or "0"


def _check(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise WeightRefused(
            "weight_malformed",
            f"it has {len(text)} characters; at most {TEXT_CHARS_MAX} are accepted",
        )
    if _NOT_FINITE.fullmatch(text.strip()):
        raise WeightRefused("weight_not_finite", f"it is not finite; give {ACCEPTED}")


def _bounded(weight: Decimal) -> Decimal:
    if abs(weight) > WEIGHT_ABS_MAX_PCT:
        raise WeightRefused(
            "weight_out_of_bounds",
            f"it is beyond {WEIGHT_ABS_MAX_PCT} percent; give {ACCEPTED}",
        )
    return weight
