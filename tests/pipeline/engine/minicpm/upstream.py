"""Small files of the shape that the adapter relies on, and the lock that asks for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.engine.minicpm.contracts import DECODER, MODEL
from pipeline.engine.minicpm.lock import LockedFile, ModelLock

MODEL_TEXT = """
from typing import Optional

raise SystemExit("the model's code was run")


class MiniCPMO:
    def as_duplex(self, device: Optional[str] = None, **kwargs) -> "MiniCPMODuplex":
        return MiniCPMODuplex.from_existing_model(model=self, device=device, **kwargs)

    def init_tts(self, model_dir=None, enable_float16=False, **kwargs): ...

    def init_streaming_processor(self): ...

    def reset_session(self, reset_token2wav_cache=True):
        self.audio_past_key_values = None


class MiniCPMODuplex:
    @classmethod
    def from_existing_model(cls, model, device: Optional[str] = None, **kwargs):
        instance = cls()
        instance.model.init_tts(enable_float16=False)
        instance.decoder.set_window_config(kwargs)
        instance.decoder.set_window_enabled(True)
        return instance

    def set_session_stop(self):
        self.session_stop_event.set()

    def _reset_streaming_state(self):
        self.current_turn_ended = True
        self.res_ids, self.total_ids, self.total_hidden = [], [], []
        self.audio_buffer = None

    def prepare(
        self,
        prefix_system_prompt: Optional[str] = None,
        ref_audio=None,
        prompt_wav_path: Optional[str] = None,
        context_previous_marker: str = "previous: ",
    ):
        self.clear_break_event()
        self.clear_session_stop()
        self._reset_streaming_state()
        self.decoder.reset()
        self.model.init_streaming_processor()
        for token in self.tokenizer.encode(prefix_system_prompt, add_special_tokens=False):
            self.decoder.feed(self.decoder.embed_token(token))
        if prefix_system_prompt:
            self.decoder.register_system_prompt()

    def streaming_prefill(
        self,
        audio_waveform=None,
        frame_list: Optional[list] = None,
        text_list=None,
        max_slice_nums: int = 1,
        batch_vision_feed: bool = False,
    ):
        if self.is_session_stop_set():
            return {"success": False}
        self.decoder.register_unit_start()
        self.decoder.feed(self.decoder.embed_token(self.unit_token_id))
        return {"success": True}

    def streaming_generate(
        self,
        prompt_wav_path=None,
        max_new_speak_tokens_per_chunk=20,
        decode_mode: str = "sampling",
        temperature=0.7,
        top_k=100,
        top_p=0.8,
        listen_prob_scale=1.0,
        listen_top_k=None,
        text_repetition_penalty=1.05,
        text_repetition_window_size=512,
    ):
        if self.is_session_stop_set():
            return {"is_listen": True}
        token = self.decoder.decode(logits=self.pending_logits, mode=decode_mode)
        self.decoder.feed(self.decoder.embed_token(token))
        self.decoder.register_unit_end(input_type="omni")
        if self.mode == "basic":
            self.decoder.enforce_window()
        return {"is_listen": True}
"""

DECODER_TEXT = """
raise SystemExit("the decoder's code was run")


class StreamDecoder:
    def reset(self):
        self.cache = None
        self.generated_tokens = []
        self._unit_history = []
        self._system_preserve_length = 0

    def get_cache_length(self): ...

    def register_system_prompt(self):
        self._system_preserve_length = self.get_cache_length()

    def register_unit_start(self): ...

    def register_unit_end(
        self, input_type: str, generated_tokens=None, is_listen=False, generated_text=None
    ):
        self._unit_history.append(self.get_cache_length())

    def enforce_window(self):
        while self.get_cache_length() > self.high:
            self._drop_next_unit()

    def set_window_config(self, config): ...

    def set_window_enabled(self, enabled): ...

    def embed_token(self, tid): ...

    def embed_tokens(self, token_ids): ...

    def feed(self, embeds, return_logits: bool = False): ...
"""


def bare(lock: ModelLock) -> ModelLock:
    """The lock of which nothing is verified yet."""

    def unknown(files: tuple[LockedFile, ...]) -> tuple[LockedFile, ...]:
        return tuple(replace(file, fingerprint=None) for file in files)

    return replace(
        lock,
        sources=unknown(lock.sources),
        companions=unknown(lock.companions),
        references=unknown(lock.references),
    )


def content(file: LockedFile) -> bytes:
    """What stands in a file of our small upstream."""
    texts = {MODEL: MODEL_TEXT, DECODER: DECODER_TEXT}
    return texts.get(file.path, f"{file.repository} {file.path}\n").encode()


def write(folder: Path, lock: ModelLock) -> Path:
    """A snapshot of it."""
    for file in lock.of_snapshot:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(file))
    return folder
