"""What is decided about a model before and after its weights are read; no torch needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.engine.minicpm import loading
from pipeline.engine.minicpm.loading import check_tokens, control_tokens
from pipeline.engine.minicpm.tokens import TokenizerRefused
from pipeline.engine.registry import ENGINES
from pipeline.errors import OmnaiError
from tests.pipeline.engine.minicpm.doubles import LOCK, TokenizerDouble


def test_the_models_tokenizer_passes() -> None:
    check_tokens(TokenizerDouble(), LOCK)


def test_a_wrong_tokenizer_is_refused_by_the_names_it_lacks() -> None:
    with pytest.raises(TokenizerRefused, match=r"<\|listen\|>, <\|turn_eos\|>"):
        check_tokens(TokenizerDouble(lacking=("<|listen|>", "<|turn_eos|>")), LOCK)


def test_a_tokenizer_that_knows_a_token_and_splits_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = TokenizerDouble()
    whole = tokenizer.encode

    def encode(text: str, *, add_special_tokens: bool) -> list[int]:
        found = whole(text, add_special_tokens=add_special_tokens)
        return [1, 2] if text == "<unit>" else found

    monkeypatch.setattr(tokenizer, "encode", encode)
    with pytest.raises(TokenizerRefused, match="<unit> as one token"):
        check_tokens(tokenizer, LOCK)


def test_control_tokens_are_markup_and_never_plain_words() -> None:
    found = control_tokens(TokenizerDouble(), LOCK)
    assert "<|timbre_7|>" in found
    assert "plain" not in found
    assert set(LOCK.required_tokens) <= set(found)


def test_without_a_gpu_or_a_model_the_engine_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNAI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OmnaiError):
        ENGINES["minicpmo"]()


def test_nothing_heavy_is_imported_before_the_engine_is_made() -> None:
    code = (
        "import sys, pipeline.engine.registry, pipeline.engine.minicpm.engine\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'tokenizers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_with_a_dot_in_its_name_is_imported_under_another(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot-4.5"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    importable = loading._importable(folder)
    assert "." not in importable.name
    assert (importable / "config.json").read_text() == "{}"
    plain = tmp_path / "snapshot"
    assert loading._importable(plain) == plain
