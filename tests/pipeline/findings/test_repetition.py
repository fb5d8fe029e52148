"""Going round in circles is held back; saying something twice for weight is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.repetition import RepetitionGuard
from pipeline.findings.safety import without

LONG = "Revenue rose because the new plant in Texas opened early this year"


def told(lines: str) -> str:
    guard = RepetitionGuard()
    kept = [without(line, guard.find(line)) for line in lines.split("\n")]
    return "\n".join(line for line in kept if line)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("profit profit profit profit profit", "profit"),
        ("Up up up up up up up, they say.", "Up, they say."),
        ("It rose. " * 30, "It rose."),
        ("the profit rose " * 6 + "the pro", "the profit rose the pro"),
        ("the profit rose " * 6 + "the profit", "the profit rose"),
        ("and so on and so on and so on and so on and so on", "and so on"),
        (
            "in the first quarter, in the first quarter, in the first quarter",
            "in the first quarter",
        ),
        (f"{LONG}. {LONG}.", f"{LONG}."),
        (f"{LONG}. {LONG}. {LONG}. Then it fell.", f"{LONG}. Then it fell."),
        (f"{LONG}.\n{LONG}.\n{LONG}.", f"{LONG}."),
        ("The chart rises.\n" * 4, "The chart rises."),
        ("Yes it is.\nNo it is not.\n" * 3, "Yes it is.\nNo it is not.\nYes it is.\nNo it is not."),
        ("Ask them.\n" * 9, "Ask them.\nAsk them.\nAsk them."),
        ("売上は増加売上は増加売上は増加売上は増加売上は増加", "売上は増加"),
        ("はい" * 30, "はい"),
        ("a" * 60, "a"),
        ("ha" * 30, "ha"),
        ("🚀" * 50, ""),
        ("5 " * 40, "5"),
        ("Rose, rose, rose, rose, rose to 5.1bn.", "Rose to 5.1bn."),
    ],
)
def test_copies_are_held_back(text: str, kept: str) -> None:
    assert told(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "It was very, very good.",
        "No, no, no.",
        "Growth, growth, growth!",
        "up and up and up",
        "We will win. We will win.",
        "Revenue 5 USD m\nCosts 4 USD m\nProfit 1 USD m",
        "USD m | USD m | USD m | USD m | USD m",
        "5% 5% 5% 5% 5% 5%",
        "0 0 0 0 0 0 0 0",
        "n/a n/a n/a n/a n/a",
        "Q1 Q2 Q3 Q4 Q1 Q2 Q3 Q4",
        "2021 2022 2023 2021 2022 2023",
        "step by step by step",
        "year over year, quarter over quarter",
        "Yes.\nYes.",
        "| --- | --- | --- | --- | --- |",
        "--------------------",
        "1000000000000000000000000000000000000000000000000",
        "Revenue rose 5% in Europe. Revenue rose 5% in Asia. Revenue rose 5% in Africa.",
        "ははは",
        "The bank said the bank is the bank.",
        "had had",
        "New York, New York",
        "A rose is a rose is a rose.",
        "5.1bn, 5.2bn, 5.1bn, 5.2bn",
    ],
)
def test_ordinary_repetition_stays(text: str) -> None:
    assert told(text) == text


def test_a_new_value_may_say_the_same() -> None:
    guard = RepetitionGuard()
    assert guard.find(LONG) == []
    guard.restart()
    assert guard.find(LONG) == []
    assert guard.find(LONG) == [(0, len(LONG))]


@given(st.text(alphabet="ab .売1", max_size=200), st.integers(0, 200))
def test_what_is_held_back_lies_in_the_text(text: str, cut: int) -> None:
    guard = RepetitionGuard()
    for line in (text[:cut], text[cut:]):
        spans = guard.find(line)
        assert all(0 <= start < end <= len(line) for start, end in spans)
        assert all(before[1] < after[0] for before, after in pairwise(spans))
