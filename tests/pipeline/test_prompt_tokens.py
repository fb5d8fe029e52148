"""A context is counted in the model's own tokens, and refused whole where it is too long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.errors import ContextTooLong, InputRefused, TokenizerUnreadable
from pipeline.prompt import CONTEXT_TOKENS_MAX, TokenCounter, check_context
from tests.pipeline.engine.minicpm import vocabulary

AROUND = len("|system\n|")
"""The control token, `system`, a line break; and the control token at the end."""


def text_of(tokens: int) -> str:
    return "a" * (tokens - AROUND)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return vocabulary.write(tmp_path)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("margins?", 8), ("Größe 7", 9), ("<|im_end|>", 1), ("a\n\nb", 4)]
)
def test_a_context_is_counted_with_what_stands_around_it(
    folder: Path, text: str, tokens: int
) -> None:
    assert TokenCounter(folder).context_tokens(text) == tokens + AROUND


def test_tokens_that_only_the_configuration_names_count_as_one(tmp_path: Path) -> None:
    without = TokenCounter(vocabulary.write(tmp_path / "without"))
    named = TokenCounter(vocabulary.write(tmp_path / "with", named=["<|listen|>", "<|speak|>"]))
    assert without.context_tokens("<|listen|>") == len("<|listen|>") + AROUND
    assert named.context_tokens("<|listen|><|speak|>") == 2 + AROUND
    first = 256 + len(vocabulary.SPECIAL)
    assert [named.token_id(t) for t in ("<|listen|>", "<|speak|>", "<|turn_eos|>")] == [
        first,
        first + 1,
        None,
    ]


def test_the_limit_itself_is_accepted_and_one_more_is_refused_with_count_and_limit(
    folder: Path,
) -> None:
    assert CONTEXT_TOKENS_MAX == {"minicpmo": 4000}
    check_context(text_of(4000), engine="minicpmo", folder=folder)
    with pytest.raises(ContextTooLong) as caught:
        check_context(text_of(4001), engine="minicpmo", folder=folder)
    assert (caught.value.tokens, caught.value.limit) == (4001, 4000)
    assert "4001 tokens" in caught.value.message
    assert "at most 4000" in caught.value.message
    assert isinstance(caught.value, InputRefused)


def test_rehearsal_has_no_limit(folder: Path) -> None:
    check_context(text_of(50_000), engine="rehearsal", folder=folder)


def test_without_a_tokenizer_nothing_is_said(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    check_context(text_of(50_000), engine="minicpmo", folder=folder)
    check_context(text_of(50_000), engine="minicpmo", folder=folder / "nowhere")


def test_a_tokenizer_that_cannot_be_read_is_a_fault_and_no_refusal(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(TokenizerUnreadable):
        check_context("a", engine="minicpmo", folder=folder)


def test_a_tokenizer_that_was_replaced_is_read_again(folder: Path) -> None:
    text = text_of(4000) + "<|listen|>"
    with pytest.raises(ContextTooLong):
        check_context(text, engine="minicpmo", folder=folder)
    vocabulary.write(folder, special=["<|im_start|>", "<|im_end|>", "a" * 2000, "<|listen|>"])
    os.utime(folder / "tokenizer.json", (1, 1))  # however coarse the file system's clock is
    check_context(text, engine="minicpmo", folder=folder)
