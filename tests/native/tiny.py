"""A native-shaped model of our own around a tiny random network, for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.native.duplex import Duplex
from tests.native.processor import AUDIO_TOKENS, FRAME_TOKENS, Numbers, Processor
from tests.native.vocabulary import Vocabulary

AUDIO_CACHE_MAX = 30 * AUDIO_TOKENS
"""The audio encoder forgets by itself after half a minute, as the native one does."""


class Model(nn.Module):
    """Random weights from a seed; the encoders are a projection each, the audio one remembers."""

    def __init__(self, *, seed: int = 0, hidden: int = 32, layers: int = 2) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.tokenizer = Vocabulary()
        config = Qwen3Config(
            vocab_size=len(self.tokenizer),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=16_384,
            initializer_range=0.3,
            sliding_window=None,
        )
        config._attn_implementation = "sdpa"
        self.config = config
        self.llm = Qwen3ForCausalLM(config)
        self.vpm = nn.Linear(3, hidden)
        self.apm = nn.Linear(16_000 // AUDIO_TOKENS, hidden)
        self.processor = Processor(self.tokenizer)
        self.eval()
        self.reset_session()

    def reset_session(self, reset_token2wav_cache: bool = True) -> None:
        self.audio_past_key_values: torch.Tensor | None = None

    def init_streaming_processor(self) -> None:
        self.processor.is_first = True

    def init_tts(self, **settings: Any) -> None:
        raise ImportError("there is no renderer of speech here")

    def as_duplex(self, device: str | None = None, **settings: Any) -> Duplex:
        return Duplex(self, device=device, **settings)

    @torch.no_grad()
    def see(self, image: Image.Image) -> torch.Tensor:
        """[64, hidden]: the picture's colours on a grid of eight by eight."""
        grid = np.asarray(image.convert("RGB").resize((8, 8)), dtype=np.float32) / 255
        seen: torch.Tensor = self.vpm(torch.from_numpy(grid.reshape(FRAME_TOKENS, 3)))
        return seen

    @torch.no_grad()
    def hear(self, samples: Numbers) -> torch.Tensor:
        """[10, hidden]: each tenth of a second, and what was heard before it."""
        heard: torch.Tensor = self.apm(torch.from_numpy(samples).reshape(AUDIO_TOKENS, -1))
        before = self.audio_past_key_values
        if before is not None and len(before) + AUDIO_TOKENS > AUDIO_CACHE_MAX:
            before = None
        self.audio_past_key_values = heard if before is None else torch.cat([before, heard])
        return heard + self.audio_past_key_values.mean(dim=0)
