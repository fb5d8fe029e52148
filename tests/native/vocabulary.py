"""A tokenizer of bytes and control tokens, with the names that the native classes ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable

CONTROL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<unk>",
    "<unit>",
    "</unit>",
    "<image>",
    "</image>",
    "<slice>",
    "</slice>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|tts_bos|>",
    "<|tts_eos|>",
    "<|tts_pad|>",
    "<|listen|>",
    "<|speak|>",
    "<|turn_bos|>",
    "<|turn_eos|>",
    "<|chunk_eos|>",
    "<|chunk_tts_eos|>",
)

BYTES = 256
_SPLIT = re.compile("(" + "|".join(re.escape(token) for token in CONTROL) + ")")
_IDS = {token: BYTES + at for at, token in enumerate(CONTROL)}


class Vocabulary:
    """One token a byte, then the control tokens."""

    unk_token_id = _IDS["<unk>"]
    eos_token_id = _IDS["<|im_end|>"]

    def __len__(self) -> int:
        return BYTES + len(CONTROL)

    def get_added_vocab(self) -> dict[str, int]:
        return dict(_IDS)

    def convert_tokens_to_ids(self, token: str) -> int:
        return _IDS.get(token, self.unk_token_id)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = []
        for part in _SPLIT.split(text):
            ids += [_IDS[part]] if part in _IDS else list(part.encode())
        return ids

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        text, run = "", bytearray()
        for token in (int(token) for token in ids):
            if token < BYTES:
                run.append(token)
                continue
            text += run.decode(errors="replace")
            run.clear()
            text += "" if skip_special_tokens else CONTROL[token - BYTES]
        return text + run.decode(errors="replace")
