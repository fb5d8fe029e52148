"""A tokenizer of the model's make whose counts can be told by hand: one token a byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-untyped]

SPECIAL = ("<|im_start|>", "<|im_end|>", "<unit>", "</unit>")


def write(folder: Path, *, special: Sequence[str] = SPECIAL, named: Sequence[str] = ()) -> Path:
    """`named` are added by the configuration alone."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    first = tokenizer.get_vocab_size()
    added = {
        str(first + n): {
            "content": name,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for n, name in enumerate(named)
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return folder
