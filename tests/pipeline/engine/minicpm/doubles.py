"""Native-shaped objects: the model's duplex form with real books and no arithmetic.

Token counts, orders and failures are those that docs (native contract) report as measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.engine.minicpm.engine import MinicpmoEngine
from pipeline.engine.minicpm.loading import Loaded
from pipeline.engine.minicpm.lock import read_lock

LOCK = read_lock()

UNIT, UNIT_END, LISTEN, SPEAK, CONTINUE, CHUNK_END, TURN_END = range(1, 8)
WORDS_FROM = 1000
FRAME_TOKENS, AUDIO_TOKENS = 66, 10

HIGH_TOKENS, LOW_TOKENS = 8_000, 6_000


@dataclass(frozen=True)
class Said:
    """What the model says in one unit."""

    text: str
    ends: bool = False
    then_listens: bool = False
    """After its turn's end it draws the listen token, in the same unit."""
    then_goes_on: bool = False
    """After its turn's end it begins to speak again, in the same unit."""


NOTHING = Said("")
"""The chunk's end is drawn first: neither listening nor a word."""


class TokenizerDouble:
    """One number for each required token, one for each further character."""

    unk_token_id = 0

    def __init__(self, lacking: tuple[str, ...] = ()) -> None:
        names = [token for token in LOCK.required_tokens if token not in lacking]
        self._numbers = {token: 100 + n for n, token in enumerate(names)}

    def convert_tokens_to_ids(self, token: str) -> int:
        return self._numbers.get(token, self.unk_token_id)

    def get_added_vocab(self) -> Mapping[str, int]:
        return {**self._numbers, "<|timbre_7|>": 900, "plain": 901}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        tokens: list[int] = []
        while text:
            name = next((name for name in self._numbers if text.startswith(name)), None)
            tokens.append(self._numbers[name] if name else WORDS_FROM + ord(text[0]))
            text = text[len(name) if name else 1 :]
        return tokens


class DecoderDouble:
    def __init__(self, owner: ModelDouble) -> None:
        self._owner = owner
        self.cache: list[int] = []
        self.preserved = 0
        self.generated_tokens: list[int] = []
        self.generated_special_tokens: list[int] = []
        self._unit_history: list[dict[str, Any]] = []
        self._next_unit_id = 0
        self._unit_start: int | None = None

    def reset(self) -> None:
        self._owner.call("decoder.reset")
        if self._owner.reset_fails:
            raise RuntimeError("device-side assert triggered")
        self.__init__(self._owner)  # type: ignore[misc]

    def embed_tokens(self, token_ids: list[int]) -> list[int]:
        return list(token_ids)

    def feed(self, embeds: list[int]) -> None:
        self._owner.call("feed", len(embeds))
        self._owner.on_feed()
        self.cache += embeds

    def register_system_prompt(self) -> None:
        self._owner.call("register_system_prompt", len(self.cache))
        self.preserved = len(self.cache)

    def get_cache_length(self) -> int:
        return len(self.cache)

    def get_window_stats(self) -> None:
        raise AttributeError("_system_prompt_template")

    def begin_unit(self) -> None:
        self._unit_start = len(self.cache)

    def end_unit(self, text: str, is_listen: bool) -> None:
        assert self._unit_start is not None
        self._unit_history.append(
            {
                "unit_id": self._next_unit_id,
                "length": len(self.cache) - self._unit_start,
                "generated_text": text,
                "is_listen": is_listen,
            }
        )
        self._next_unit_id += 1
        if len(self.cache) > HIGH_TOKENS:
            while len(self.cache) > LOW_TOKENS and self._unit_history:
                length = self._unit_history.pop(0)["length"]
                del self.cache[self.preserved : self.preserved + length]


class DuplexDouble:
    def __init__(self, model: ModelDouble) -> None:
        self.model = model
        self.tokenizer = model.tokenizer
        self.decoder = DecoderDouble(model)
        self.is_stopped = False
        self.is_broken_off = False
        self._reset_streaming_state()

    # --- control

    def clear_break_event(self) -> None:
        self.model.call("clear_break_event")
        self.is_broken_off = False

    def clear_session_stop(self) -> None:
        self.model.call("clear_session_stop")
        self.is_stopped = False

    def set_session_stop(self) -> None:
        self.is_stopped = self.is_broken_off = True

    def _reset_streaming_state(self) -> None:
        self.model.call("_reset_streaming_state")
        self.units = 0
        self.current_turn_ended = True
        self.audio_buffer = np.zeros(0, np.float32)
        self.total_hidden: list[Any] = []
        self.total_ids: list[int] = []
        self.res_ids: list[int] = []
        self.prefill_schema_tokens: list[Any] = []

    # --- one unit

    def streaming_prefill(
        self,
        audio_waveform: Any,
        frame_list: list[Any],
        max_slice_nums: int,
        batch_vision_feed: bool,
    ) -> dict[str, Any]:
        model, number = self.model, self.units
        model.call("prefill", number)
        model.run(model.before_prefill, number)
        if self.is_stopped or self.is_broken_off:
            return {"success": False, "reason": "", "cost_all": 0.0}
        model.inputs = (audio_waveform, frame_list, max_slice_nums, batch_vision_feed)
        self.decoder.begin_unit()
        self.decoder.cache.append(UNIT)
        self.decoder.cache += [UNIT] * FRAME_TOKENS * len(frame_list)
        if number in model.raises_in_prefill:
            raise RuntimeError("out of memory")
        self.audio_buffer = np.concatenate([self.audio_buffer, audio_waveform])
        if number == 0 and len(self.audio_buffer) < 16_560:
            padding = np.zeros(16_560 - len(self.audio_buffer), np.float32)
            self.audio_buffer = np.concatenate([padding, self.audio_buffer])
        if number in model.takes_no_audio:
            return {"success": False, "reason": "audio not enough", "cost_all": 0.001}
        model.hear(self.audio_buffer[: 16_480 if number == 0 else 16_000])
        self.audio_buffer = self.audio_buffer[16_480 if number == 0 else 16_000 :]
        self.decoder.cache += [UNIT] * AUDIO_TOKENS
        self.prefill_schema_tokens.append([UNIT, ("audio", AUDIO_TOKENS)])
        self.units += 1
        model.run(model.between, number)
        return {"success": True, "reason": "", "cost_audio_feed": 0.002, "cost_all": 0.004}

    def streaming_generate(
        self, *, max_new_speak_tokens_per_chunk: int, **sampling: Any
    ) -> dict[str, Any]:
        model, number = self.model, self.units - 1
        model.call("generate", number)
        model.sampling = {"cap": max_new_speak_tokens_per_chunk, **sampling}
        if self.is_stopped or self.is_broken_off:
            return self._answer(is_listen=True, end_of_turn=True)
        model.run(model.during_generate, number)
        if number in model.raises_in_generate:
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        answer = self._listen() if (said := model.script.get(number)) is None else self._say(said)
        self.decoder.cache.append(UNIT_END)
        self.total_ids.append(UNIT_END)
        self.decoder.end_unit(answer.pop("generated_text"), answer["is_listen"])
        model.run(model.after_generate, number)
        return answer

    def _listen(self) -> dict[str, Any]:
        token = LISTEN if self.current_turn_ended else CONTINUE
        self._draw(token)
        self.total_hidden.append([])
        is_listen = token == LISTEN
        return self._answer(is_listen=is_listen) | {"generated_text": ""}

    def _say(self, said: Said) -> dict[str, Any]:
        words = said.text.split(" ") if said.text else []
        if words:
            self._draw(SPEAK if self.current_turn_ended else CONTINUE)
            self.current_turn_ended = False
        for word in words:
            self._draw(WORDS_FROM + sum(map(ord, word)))
            self.res_ids.append(self.total_ids[-1])
        self.total_hidden.append([object() for _ in words])
        if said.ends:
            self._draw(TURN_END)
            self.current_turn_ended = not said.then_goes_on
        self._draw(LISTEN if said.then_listens else CHUNK_END)
        count = len(words) + said.ends
        return self._answer(
            is_listen=said.then_listens,
            end_of_turn=said.ends and not said.then_listens and not said.then_goes_on,
            text="" if said.then_listens else said.text,
            n_tokens=count,
        ) | {"generated_text": said.text}

    def _draw(self, token: int) -> None:
        self.decoder.cache.append(token)
        self.total_ids.append(token)
        if token != CHUNK_END:
            self.decoder.generated_tokens.append(token)

    def _answer(self, **changes: Any) -> dict[str, Any]:
        return {
            "is_listen": False,
            "text": "",
            "end_of_turn": False,
            "n_tokens": 0,
            "current_time": self.units,
            "cost_llm": 0.003,
            "cost_all": 0.003,
        } | changes


@dataclass
class ModelDouble:
    """Every switch is a way in which the real one was seen to behave."""

    script: dict[int, Said] = field(default_factory=dict)
    before_prefill: dict[int, Callable[[], None]] = field(default_factory=dict)
    between: dict[int, Callable[[], None]] = field(default_factory=dict)
    during_generate: dict[int, Callable[[], None]] = field(default_factory=dict)
    after_generate: dict[int, Callable[[], None]] = field(default_factory=dict)
    on_feed: Callable[[], None] = lambda: None
    raises_in_prefill: set[int] = field(default_factory=set)
    raises_in_generate: set[int] = field(default_factory=set)
    takes_no_audio: set[int] = field(default_factory=set)
    reset_fails: bool = False
    device_is_gone: bool = False
    constructor_fails: bool = False
    is_forgetful: bool = False
    """For long runs: the double keeps neither calls nor samples."""
    tokenizer: TokenizerDouble = field(default_factory=TokenizerDouble)

    def __post_init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.heard: list[Any] = []
        """What its audio encoder keeps until `reset_session`, as the real one does."""
        self.inputs: tuple[Any, ...] = ()
        self.sampling: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}

    def call(self, name: str, *details: Any) -> None:
        if not self.is_forgetful:
            self.calls.append((name, *details))

    def run(self, hooks: Mapping[int, Callable[[], None]], number: int) -> None:
        hooks.get(number, lambda: None)()

    def hear(self, samples: Any) -> None:
        if not self.is_forgetful:
            self.heard.append(samples)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    # --- the model's own methods

    def init_tts(self, **settings: Any) -> None:
        raise AttributeError("'MiniCPMO' object has no attribute 'tts'")

    def as_duplex(self, **settings: Any) -> DuplexDouble:
        self.settings = settings
        self.init_tts(enable_float16=False, n_timesteps=10)
        if self.constructor_fails:
            raise ValueError("no processor")
        return DuplexDouble(self)

    def reset_session(self) -> None:
        self.call("reset_session")
        self.heard = []

    def init_streaming_processor(self) -> None:
        self.call("init_streaming_processor")


def loaded(model: ModelDouble) -> Loaded:
    def check_device() -> None:
        model.call("check_device")
        if model.device_is_gone:
            raise RuntimeError("CUDA error: unspecified launch failure")

    return Loaded(
        model=model,
        duplex=DuplexDouble(model),
        decode=LOCK.decode,
        revision=LOCK.revision,
        device="cpu",
        control_tokens=("<unit>", "</unit>", "<|speak|>", "<|turn_eos|>"),
        settings={"torch_dtype": "bfloat16"},
        seed=lambda seed: model.call("seed", seed),
        check_device=check_device,
    )


def engine(model: ModelDouble | None = None) -> MinicpmoEngine:
    return MinicpmoEngine(loaded(model or ModelDouble()))
