"""A duplex form of our own, shaped as the native one was measured to be."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from tests.native.decoder import Decoder, Window
from tests.native.processor import AUDIO_TOKENS, FRAME_TOKENS, Numbers

if TYPE_CHECKING:
    from tests.native.tiny import Model


class Duplex:
    """One call a second: prefill, then listen or speak."""

    def __init__(self, model: Model, *, device: str | None = None, **settings: Any) -> None:
        model.init_tts(
            enable_float16=settings.get("enable_float16", False),
            n_timesteps=settings.get("n_timesteps", 10),
        )
        self.model = model
        self.processor = model.processor
        self.tokenizer = model.tokenizer
        self.device = device or str(model.llm.device)
        self.generate_audio = settings.get("generate_audio", True)
        self.force_listen_count = settings.get("force_listen_count", 0)
        self.CHUNK_MS = settings.get("chunk_ms", 1000)
        self.FIRST_CHUNK_MS = settings.get("first_chunk_ms", 1035)
        self.SAMPLE_RATE = settings.get("sample_rate", 16_000)
        self.break_event, self.session_stop_event = threading.Event(), threading.Event()
        ids = self.tokenizer.convert_tokens_to_ids
        self.unit_token_id = ids("<unit>")
        self.listen_token_id = ids("<|listen|>")
        self.speak_token_id = ids("<|speak|>")
        self.tts_bos_token_id = ids("<|tts_bos|>")
        self.chunk_eos_token_id = ids("<|chunk_eos|>")
        self.turn_eos_token_id = ids("<|turn_eos|>")
        self.decoder = Decoder(model.llm, self.tokenizer, [ids("<|tts_pad|>")])
        mode = settings.get("sliding_window_mode", "off")
        self.decoder.set_window_config(
            Window(
                sliding_window_mode=mode,
                basic_window_high_tokens=settings.get("basic_window_high_tokens", 8000),
                basic_window_low_tokens=settings.get("basic_window_low_tokens", 6000),
            )
        )
        self.decoder.set_window_enabled(mode != "off")
        self._reset_streaming_state()

    def _reset_streaming_state(self) -> None:
        self.audio_chunk_idx = 0
        self.current_turn_ended = True
        self.speak_count = 0
        self._streaming_generate_count = 0
        self.res_ids: list[int] = []
        self.total_ids: list[int] = []
        self.total_hidden: list[list[Any]] = []
        self.prefill_schema_tokens: list[list[Any]] = []
        self._current_unit_prefill_tokens: list[Any] = []
        self.audio_buffer = np.zeros(0, np.float32)
        self.pending_logits: torch.Tensor | None = None
        self.current_mode: str | None = None

    # --- stop

    def set_break_event(self) -> None:
        self.break_event.set()

    def clear_break_event(self) -> None:
        self.break_event.clear()

    def set_session_stop(self) -> None:
        self.session_stop_event.set()
        self.break_event.set()

    def clear_session_stop(self) -> None:
        self.session_stop_event.clear()

    def is_break_set(self) -> bool:
        return self.break_event.is_set()

    def is_session_stop_set(self) -> bool:
        return self.session_stop_event.is_set()

    # --- the calls

    def prepare(self, prefix_system_prompt: str | None = None, **ignored: Any) -> str:
        """One forward a token."""
        prefix = "<|im_start|>system\n" + (prefix_system_prompt or "Streaming Omni Conversation.")
        self.clear_break_event()
        self.clear_session_stop()
        self._reset_streaming_state()
        self.decoder.reset()
        self.model.init_streaming_processor()
        for part in (prefix, "<|im_end|>"):
            for token in self.tokenizer.encode(part, add_special_tokens=False):
                self.decoder.feed(self.decoder.embed_token(token))
        self.decoder.register_system_prompt()
        return prefix + "<|im_end|>"

    def streaming_prefill(
        self,
        audio_waveform: Numbers | None = None,
        frame_list: list[Image.Image] | None = None,
        text_list: list[str] | None = None,
        max_slice_nums: int = 1,
        batch_vision_feed: bool = False,
    ) -> dict[str, Any]:
        began = time.time()
        if self.is_session_stop_set() or self.is_break_set():
            return _prefilled(began, success=False)
        if audio_waveform is None or not len(audio_waveform):
            return _prefilled(began, success=False)
        self.pending_logits = None
        self.decoder.register_unit_start()
        self._current_unit_prefill_tokens = [self.unit_token_id]
        self.decoder.feed(self.decoder.embed_token(self.unit_token_id))
        if frame_list:
            self._look(frame_list, max_slice_nums, is_batched=batch_vision_feed)
        reason = self._listen_to(audio_waveform)
        if reason:
            return _prefilled(began, success=False, reason=reason)
        self.current_mode = "OMNI" if frame_list else "AUDIO"
        self.prefill_schema_tokens.append(self._current_unit_prefill_tokens)
        return _prefilled(began, success=True)

    def _look(self, frames: list[Image.Image], max_slice_nums: int, *, is_batched: bool) -> None:
        parts = []
        for frame in frames:
            for at, piece in enumerate(self.processor.pieces(frame, max_slice_nums)):
                kind = "image" if at == 0 else "slice"
                opening = self.tokenizer.convert_tokens_to_ids(f"<{kind}>")
                closing = self.tokenizer.convert_tokens_to_ids(f"</{kind}>")
                parts += [self.decoder.embed_token(opening), self.model.see(piece)]
                parts += [self.decoder.embed_token(closing)]
                self._current_unit_prefill_tokens += [opening, ("img", FRAME_TOKENS), closing]
        for feed in [torch.cat(parts)] if is_batched else parts:
            self.decoder.feed(feed)

    def _listen_to(self, samples: Numbers) -> str:
        """Feed the next second of the buffer; a reason where it holds too little."""
        self.audio_buffer = np.concatenate([self.audio_buffer, samples])
        first = self.FIRST_CHUNK_MS * self.SAMPLE_RATE // 1000
        if self.audio_chunk_idx == 0 and len(self.audio_buffer) < first:
            zeros = np.zeros(first - len(self.audio_buffer), np.float32)
            self.audio_buffer = np.concatenate([zeros, self.audio_buffer])
        need = self.processor.get_streaming_chunk_size()
        if len(self.audio_buffer) < need:
            return f"audio not enough: need {need} samples, only {len(self.audio_buffer)}"
        heard = self.model.hear(self.audio_buffer[need - 16_000 : need])
        fed = self.decoder.feed(heard, return_logits=True)
        assert fed is not None
        self.pending_logits = fed[0]
        self._current_unit_prefill_tokens.append(("audio", AUDIO_TOKENS))
        self.audio_buffer = self.audio_buffer[need:]
        self.processor.is_first = False
        self.audio_chunk_idx += 1
        return ""

    def streaming_generate(
        self,
        prompt_wav_path: str | None = None,
        max_new_speak_tokens_per_chunk: int = 20,
        decode_mode: str = "sampling",
        temperature: float = 0.7,
        top_k: int = 100,
        top_p: float = 0.8,
        listen_prob_scale: float = 1.0,
        listen_top_k: int | None = None,
        text_repetition_penalty: float = 1.05,
        text_repetition_window_size: int = 512,
    ) -> dict[str, Any]:
        began = time.time()
        if self.is_session_stop_set() or self.is_break_set():
            return self._answer(began, is_listen=True, end_of_turn=True)
        if self.pending_logits is None:
            return self._answer(began, is_listen=True)
        is_forced = self._streaming_generate_count < self.force_listen_count
        self._streaming_generate_count += 1
        sampling = {
            "mode": decode_mode,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "listen_top_k": listen_top_k,
            "listen_prob_scale": listen_prob_scale,
            "text_repetition_penalty": text_repetition_penalty,
            "text_repetition_window_size": text_repetition_window_size,
        }
        said, last = self._say(max_new_speak_tokens_per_chunk, sampling, is_forced=is_forced)
        return self._finish(began, said, is_listen=last == self.listen_token_id)

    def _say(
        self, most: int, sampling: dict[str, Any], *, is_forced: bool
    ) -> tuple[list[list[Any]], int]:
        """Draw tokens until one ends the chunk; what counts as text, and the last one drawn."""
        logits, self.pending_logits = self.pending_logits, None
        said: list[list[Any]] = []
        token = self.listen_token_id
        for nth in range(most):
            if nth == most - 1:
                self._append(self.chunk_eos_token_id)
                break
            if not is_forced:
                token = int(self.decoder.decode(logits=logits, **sampling))
            if token == self.listen_token_id and not self.current_turn_ended:
                token = self.tts_bos_token_id
            logits, states = self._append(token)
            if token in (self.listen_token_id, self.chunk_eos_token_id):
                break
            is_end = token == self.turn_eos_token_id
            self.current_turn_ended = is_end
            if token != self.speak_token_id:
                self.res_ids.append(token)
                self.speak_count += 1
            if nth:
                said.append([token, states, is_end])
        return said, token

    def _append(self, token: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.total_ids.append(token)
        fed = self.decoder.feed(self.decoder.embed_token(token), return_logits=True)
        assert fed is not None
        return fed

    def _finish(self, began: float, said: list[list[Any]], *, is_listen: bool) -> dict[str, Any]:
        """Close the unit, let the window fall, and answer: a listen at the end hides the words."""
        self._append(int(self.tokenizer.convert_tokens_to_ids("</unit>")))  # type: ignore[arg-type]
        text = self.tokenizer.decode([token for token, *_ in said], skip_special_tokens=True)
        self.decoder.register_unit_end(
            input_type=str(self.current_mode).lower(),
            generated_tokens=[token for token, *_ in said],
            is_listen=is_listen,
            generated_text=text,
        )
        if self.decoder._window_config.sliding_window_mode == "basic":
            self.decoder.enforce_window()
        self.total_hidden.append([] if is_listen else said)
        return self._answer(
            began,
            is_listen=is_listen,
            text="" if is_listen else text,
            end_of_turn=not is_listen and bool(said) and said[-1][2],
            n_tokens=len(said),
        )

    def _answer(
        self,
        began: float,
        *,
        is_listen: bool,
        text: str = "",
        end_of_turn: bool = False,
        n_tokens: int = 0,
    ) -> dict[str, Any]:
        costs = dict.fromkeys(("cost_llm", "cost_tts_prep", "cost_tts", "cost_token2wav"), 0.0)
        return {
            "is_listen": is_listen,
            "text": text,
            "audio_waveform": np.zeros(24_000, np.float32) if is_listen else None,
            "end_of_turn": end_of_turn,
            "current_time": self.audio_chunk_idx,
            **costs,
            "cost_all": time.time() - began,
            "n_tokens": n_tokens,
            "n_tts_tokens": 0,
        }


def _prefilled(began: float, *, success: bool, reason: str = "") -> dict[str, Any]:
    costs = dict.fromkeys(
        (
            "cost_vision_process",
            "cost_vision_embed",
            "cost_vision_feed",
            "cost_audio_process",
            "cost_audio_embed",
            "cost_audio_feed",
        ),
        0.0,
    )
    return {"success": success, "reason": reason, **costs, "cost_all": time.time() - began}
