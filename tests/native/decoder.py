"""A stream decoder over a real network: key-value cache, units, protected prompt and window."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import rotate_half

from tests.native.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

MASKED = float("-inf")


@dataclass(kw_only=True)
class Window:
    """Above `basic_window_high_tokens` the oldest units fall until `basic_window_low_tokens`."""

    sliding_window_mode: str = "off"
    basic_window_high_tokens: int = 8000
    basic_window_low_tokens: int = 6000


class Decoder:
    """Shaped as the native one was measured to be, its defects included."""

    def __init__(self, llm: Qwen3ForCausalLM, tokenizer: Vocabulary, forbidden: list[int]) -> None:
        self.m = llm
        self.tokenizer = tokenizer
        self.chunk_eos_id = tokenizer.convert_tokens_to_ids("<|chunk_eos|>")
        self.special_token_ids: list[int] = []
        self.forbidden_token_ids = [*forbidden, self.chunk_eos_id]
        self._window_config = Window()
        self._window_enabled = True
        self.reset()

    def reset(self) -> None:
        self.cache: DynamicCache | None = None
        self.generated_tokens: list[int] = []
        self.generated_special_tokens: list[int] = []
        self._unit_history: list[dict[str, Any]] = []
        self._next_unit_id = 0
        self._pending_unit_id: int | None = None
        self._pending_unit_start_cache_len = 0
        self._system_preserve_length = 0

    def set_window_config(self, config: Window) -> None:
        self._window_config = config

    def set_window_enabled(self, enabled: bool) -> None:
        self._window_enabled = enabled

    def get_cache_length(self) -> int:
        return 0 if self.cache is None else int(self.cache.key_cache[0].shape[2])

    def get_window_stats(self) -> dict[str, Any]:
        # The native helper asks for an attribute that nothing sets.
        return {"has_system_template": self._system_prompt_template is not None}  # type: ignore[attr-defined]

    # --- tokens in

    def embed_token(self, token: int | torch.Tensor) -> torch.Tensor:
        return self.embed_tokens([token] if isinstance(token, int) else token.tolist())

    def embed_tokens(self, token_ids: list[int]) -> torch.Tensor:
        """[tokens, hidden]"""
        ids = torch.tensor(token_ids, dtype=torch.long, device=self.m.device)
        embedded: torch.Tensor = self.m.model.embed_tokens(ids)
        return embedded

    @torch.no_grad()
    def feed(
        self, embeds: torch.Tensor, return_logits: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Append [tokens, hidden] to the cache; logits [1, vocabulary] and states of the last."""
        begin = self.get_cache_length()
        positions = torch.arange(begin, begin + len(embeds), device=embeds.device)
        made = self.m.model(
            inputs_embeds=embeds[None],
            position_ids=positions[None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.cache = made.past_key_values
        if not return_logits:
            return None
        states = made.last_hidden_state
        return self.m.lm_head(states[:, -1]), states

    @torch.no_grad()
    def decode(
        self,
        logits: torch.Tensor,
        mode: str = "sampling",
        temperature: float = 0.7,
        top_k: int = 20,
        top_p: float = 0.8,
        listen_top_k: int | None = None,
        listen_prob_scale: float = 1.0,
        text_repetition_penalty: float = 1.05,
        text_repetition_window_size: int = 512,
    ) -> torch.Tensor:
        """The next token, shape [1]; a chunk's end is drawn first, from the untouched scores."""
        scores = logits[0].clone()
        if _draw(scores, mode) == self.chunk_eos_id:
            return torch.tensor([self.chunk_eos_id], device=logits.device)
        scores[self.forbidden_token_ids] = MASKED
        recent = sorted(set(self.generated_tokens[-text_repetition_window_size:]))
        if recent and text_repetition_penalty != 1.0:
            scores[recent] = scores[recent] / text_repetition_penalty
        if mode == "sampling":
            scores = _nucleus(scores / temperature, top_k=top_k, top_p=top_p)
        token = _draw(scores, mode)
        self.generated_tokens.append(token)
        return torch.tensor([token], device=logits.device)

    # --- units and the window

    def register_system_prompt(self) -> None:
        self._system_preserve_length = self.get_cache_length()

    def register_unit_start(self) -> int:
        self._pending_unit_id = self._next_unit_id
        self._pending_unit_start_cache_len = self.get_cache_length()
        return self._pending_unit_id

    def register_unit_end(self, **about: Any) -> None:
        if self._pending_unit_id is None:
            return
        length = self.get_cache_length() - self._pending_unit_start_cache_len
        if length > 0:
            entry = {"unit_id": self._pending_unit_id, "length": length, **about}
            self._unit_history.append(entry)
        self._pending_unit_id = None
        self._next_unit_id += 1

    def enforce_window(self) -> bool:
        config, before = self._window_config, len(self._unit_history)
        if not self._window_enabled or self.get_cache_length() <= config.basic_window_high_tokens:
            return False
        while self._unit_history and self.get_cache_length() > config.basic_window_low_tokens:
            self._drop_tokens_from_cache(self._unit_history.pop(0)["length"])
        kept = sum(unit["length"] for unit in self._unit_history)
        if self._system_preserve_length + kept != self.get_cache_length():
            logger.error("CONSISTENCY ERROR: %d tokens are in no unit", self.get_cache_length())
        return len(self._unit_history) < before

    def _drop_tokens_from_cache(self, length: int) -> bool:
        """Take the tokens after the protected prompt out; turn the later keys back to fit."""
        assert self.cache is not None
        head = self._system_preserve_length
        for layer, keys in enumerate(self.cache.key_cache):
            values = self.cache.value_cache[layer]
            later = _turned(keys[:, :, head + length :], -length, self.m.config.rope_theta)
            self.cache.key_cache[layer] = torch.cat([keys[:, :, :head], later], dim=2)
            self.cache.value_cache[layer] = torch.cat(
                [values[:, :, :head], values[:, :, head + length :]], dim=2
            )
        self.cache._seen_tokens = self.get_cache_length()
        return True


def _turned(keys: torch.Tensor, by: int, theta: float) -> torch.Tensor:
    """Keys [batch, heads, tokens, size] moved by so many positions: rotations add up."""
    size = keys.shape[-1]
    speeds = theta ** -(torch.arange(0, size, 2, dtype=torch.float32, device=keys.device) / size)
    angle = (by * speeds).repeat(2)
    turned = keys * angle.cos() + rotate_half(keys) * angle.sin()
    return turned.to(keys.dtype)


def _draw(scores: torch.Tensor, mode: str) -> int:
    if mode == "greedy":
        return int(scores.argmax())
    return int(torch.multinomial(torch.softmax(scores, dim=-1), 1))


def _nucleus(scores: torch.Tensor, *, top_k: int, top_p: float) -> torch.Tensor:
    best, order = scores.sort(descending=True)
    best[top_k:] = MASKED
    shares = torch.softmax(best, dim=-1)
    best[shares.cumsum(dim=-1) - shares > top_p] = MASKED
    return torch.full_like(scores, MASKED).scatter(0, order, best)
