"""What the adapter uses of the model's own duplex classes, and the errors of using it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pipeline.errors import EngineError


class NativeFailed(EngineError):
    """The model's own code answered in a way that leaves its state unknown."""

    code = "native_failed"


class Decoder(Protocol):
    """The stream decoder behind `duplex.decoder`."""

    generated_tokens: list[int]
    generated_special_tokens: list[int]
    _unit_history: Sequence[Any]

    def reset(self) -> None: ...

    def embed_tokens(self, token_ids: list[int]) -> Any: ...

    def feed(self, embeds: Any) -> Any: ...

    def register_system_prompt(self) -> None: ...

    def get_cache_length(self) -> int: ...


class Tokenizer(Protocol):
    """The tokenizer that came with the snapshot."""

    unk_token_id: int | None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def convert_tokens_to_ids(self, token: str) -> int | None: ...

    def get_added_vocab(self) -> Mapping[str, int]: ...


class Model(Protocol):
    """The loaded model; `reset_session` alone forgets what its audio encoder has heard."""

    def reset_session(self) -> None: ...

    def init_streaming_processor(self) -> None: ...

    def as_duplex(self, **settings: Any) -> Any: ...


class Duplex(Protocol):
    """The duplex form of the model. All but `set_session_stop` belongs to the engine's thread."""

    model: Any
    decoder: Any
    tokenizer: Any
    current_turn_ended: bool
    audio_buffer: Sequence[float]
    total_hidden: list[Any]
    total_ids: list[int]
    res_ids: list[int]
    prefill_schema_tokens: list[Any]

    def clear_break_event(self) -> None: ...

    def clear_session_stop(self) -> None: ...

    def set_session_stop(self) -> None: ...

    def _reset_streaming_state(self) -> None: ...

    def streaming_prefill(self, **inputs: Any) -> Mapping[str, Any]: ...

    def streaming_generate(self, **settings: Any) -> Mapping[str, Any]: ...
