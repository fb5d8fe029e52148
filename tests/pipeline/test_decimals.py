"""Decimals as people write them, exact in every digit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decimals import decimal_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12.50", "12.5"),
        ("1.25E+1", "12.5"),
        ("-10.000", "-10"),
        ("1E+3", "1000"),
        ("100", "100"),
        ("-0.00", "0"),
        ("0E+2", "0"),
        ("0E-9", "0"),
        ("1E-9", "0.000000001"),
        ("1234567890123456789012345678901.5", "1234567890123456789012345678901.5"),
    ],
)
def test_the_shortest_spelling_without_an_exponent(value: str, text: str) -> None:
    assert decimal_text(Decimal(value)) == text


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost(value: Decimal) -> None:
    text = decimal_text(value)
    assert Decimal(text) == value
    assert "E" not in text
    assert not ("." in text and text.endswith(("0", ".")))
