"""A wrong tokenizer fails by the names of what it lacks."""

from __future__ import annotations

import pytest

from pipeline.engine.minicpm.tokens import TokenizerRefused, resolve


def test_each_required_token_is_resolved_to_its_number() -> None:
    numbers = {"<unit>": 7, "</unit>": 8, "other": 9}
    assert resolve(["<unit>", "</unit>"], numbers.get) == {"<unit>": 7, "</unit>": 8}


def test_every_missing_token_is_named() -> None:
    with pytest.raises(TokenizerRefused) as caught:
        resolve(["<unit>", "</unit>", "<image>"], {"<unit>": 7}.get)
    assert "</unit>, <image>;" in caught.value.message
    assert caught.value.code == "tokenizer_refused"


def test_a_token_that_gets_the_number_of_unknown_ones_is_missing() -> None:
    numbers = {"<unit>": 7, "</unit>": 0}
    assert resolve(["<unit>", "</unit>"], numbers.get) == numbers
    with pytest.raises(TokenizerRefused, match="for </unit>;"):
        resolve(["<unit>", "</unit>"], numbers.get, unknown_id=0)


def test_two_tokens_of_one_number_are_both_named() -> None:
    with pytest.raises(TokenizerRefused, match="for <unit>, </unit>;"):
        resolve(["<unit>", "</unit>", "<image>"], {"<unit>": 7, "</unit>": 7, "<image>": 9}.get)
