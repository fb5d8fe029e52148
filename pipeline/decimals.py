"""A decimal as people write it."""

from __future__ import annotations

from decimal import Decimal


def decimal_text(value: Decimal) -> str:
    """The shortest spelling, exact: no exponent, no trailing zeros, no minus zero."""
    if value == 0:
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
