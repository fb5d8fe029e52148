"""Source time is exact and rounded once; the expected numbers are computed by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.clock import clock_text, milliseconds, sample_index, samples_to_milliseconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (Fraction(0), 0),
        (Fraction(1, 2000), 1),  # half a millisecond goes upward
        (Fraction(-1, 2000), 0),  # and so does minus half of one
        (Fraction(4999, 10_000_000), 0),
        (Fraction(1001, 30_000), 33),  # one picture of NTSC
        (Fraction(100_000 * 1001, 30_000), 3_336_667),
        (Fraction(43_200), 43_200_000),
    ],
)
def test_a_source_time_is_rounded_to_the_nearest_millisecond(
    seconds: Fraction, expected: int
) -> None:
    assert milliseconds(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (Fraction(0), 0),
        (Fraction(1), 16_000),
        (Fraction(1, 32_000), 1),
        (Fraction(1024, 44_100), 372),  # 371.5…: nearest
        (Fraction(1024, 48_000), 341),  # 341.3…: nearest
        (Fraction(43_200), 691_200_000),
    ],
)
def test_a_source_time_has_one_nearest_sample(seconds: Fraction, expected: int) -> None:
    assert sample_index(seconds) == expected


@pytest.mark.parametrize(
    ("position", "expected"), [(0, 0), (7, 0), (8, 1), (16_000, 1000), (15_999, 1000)]
)
def test_a_sample_position_is_rounded_to_the_nearest_millisecond(
    position: int, expected: int
) -> None:
    assert samples_to_milliseconds(position) == expected


@pytest.mark.parametrize(
    ("at_ms", "plain", "with_tenths"),
    [
        (0, "0:00", "0:00.0"),
        (59_999, "0:59", "0:59.9"),
        (60_000, "1:00", "1:00.0"),
        (3_599_950, "59:59", "59:59.9"),
        (3_723_400, "1:02:03", "1:02:03.4"),
        (43_200_000, "12:00:00", "12:00:00.0"),
    ],
)
def test_a_time_is_written_as_people_read_it(at_ms: int, plain: str, with_tenths: str) -> None:
    assert clock_text(at_ms) == plain
    assert clock_text(at_ms, with_tenths=True) == with_tenths
