"""What of an answer is public, and what kind of unit it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.engine.minicpm.native import NativeFailed
from pipeline.engine.minicpm.speech import Answer, PublicText, read_answer
from tests.pipeline.engine.minicpm.doubles import NOTHING, DuplexDouble, ModelDouble, Said

SILENCE = np.zeros(16_000, np.float32)

LISTENED: dict[str, Any] = {"is_listen": True, "end_of_turn": False, "text": "", "n_tokens": 0}


def answered(*said: Said | None) -> list[Answer]:
    """The answers to units in which the model says so."""
    model = ModelDouble(script={n: each for n, each in enumerate(said) if each is not None})
    duplex = DuplexDouble(model)
    found: list[Answer] = []
    for _ in said:
        was_open = not duplex.current_turn_ended
        duplex.streaming_prefill(SILENCE, [], 1, True)
        made = duplex.streaming_generate(max_new_speak_tokens_per_chunk=20)
        found.append(read_answer(made, duplex, was_turn_open=was_open))
    return found


def test_a_listening_unit_says_nothing_and_opens_nothing() -> None:
    (answer,) = answered(None)
    assert (answer.is_speaking, answer.text, answer.is_turn_open) == (False, "", False)


def test_a_turn_is_open_until_its_end_is_drawn() -> None:
    first, between, last = answered(Said("Sales rose"), None, Said("again.", ends=True))
    assert (first.is_speaking, first.is_turn_open, first.has_turn_ended) == (True, True, False)
    assert (between.is_speaking, between.text, between.is_turn_open) == (True, "", True)
    assert (last.is_speaking, last.is_turn_open, last.has_turn_ended) == (True, False, True)


def test_a_turn_that_ends_in_a_unit_which_then_listens_keeps_its_last_words() -> None:
    _, last = answered(Said("Sales rose"), Said("again.", ends=True, then_listens=True))
    assert (last.is_speaking, last.text, last.has_turn_ended) == (True, "again.", True)
    (only,) = answered(Said("Sales rose.", ends=True, then_listens=True))
    assert (only.is_speaking, only.text, only.has_turn_ended) == (True, "Sales rose.", True)


def test_a_unit_that_draws_its_end_at_once_opens_no_turn() -> None:
    (answer,) = answered(NOTHING)
    assert (answer.is_speaking, answer.is_turn_open, answer.has_turn_ended) == (False, False, False)


def test_a_turn_that_ends_and_goes_on_in_one_unit_stays_open() -> None:
    (answer,) = answered(Said("One. Two", ends=True, then_goes_on=True))
    assert (answer.is_speaking, answer.is_turn_open, answer.has_turn_ended) == (True, True, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"end_of_turn": True},  # the early return after a stop: the unit is still open
        {"is_listen": None},
        {"end_of_turn": 1},
        {"text": None},
        {"n_tokens": -1},
        {"n_tokens": None},
    ],
)
def test_an_answer_that_no_completed_unit_gives_is_a_fault(changes: dict[str, Any]) -> None:
    with pytest.raises(NativeFailed):
        read_answer(LISTENED | changes, DuplexDouble(ModelDouble()), was_turn_open=False)


def test_control_tokens_never_become_public_text() -> None:
    public = PublicText(["<unit>", "<|speak|>", "<|speak|>x"])
    assert public.of("<|speak|>Sales <unit>rose < 5% <b>") == "Sales rose < 5% <b>"
    assert public.of("a<|speak|>xb") == "ab"
    assert PublicText([]).of("<unit>") == "<unit>"
