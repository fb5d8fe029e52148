"""One epoch inside the model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pipeline.engine.minicpm import history, inputs
from pipeline.engine.minicpm.carry import Carry
from pipeline.engine.minicpm.inputs import NativeInputs
from pipeline.engine.minicpm.loading import Loaded
from pipeline.engine.minicpm.native import NativeFailed
from pipeline.engine.minicpm.speech import Answer, PublicText, read_answer
from pipeline.engine.minicpm.turns import Turns
from pipeline.engine.minicpm.window import window_after
from pipeline.engine.session import Session, listening_reply
from pipeline.errors import SessionStopped
from pipeline.records import Decision, EngineClocks, Reply, SessionContext, Unit


class MinicpmoSession(Session):
    """Made by its engine, which has fed the context; `reset` forgets everything natively."""

    def __init__(
        self, context: SessionContext, loaded: Loaded, *, reset: Callable[[bool], None]
    ) -> None:
        super().__init__(context)
        self._loaded = loaded
        self._duplex = loaded.duplex
        self._reset_native = reset
        self._public_text = PublicText(loaded.control_tokens)
        self._turns = Turns(context.epoch)
        self._carry = Carry()
        self._prepared: NativeInputs | None = None
        self._prepare_ms = 0.0
        self._has_fed = False
        self._has_failed = False
        # A signal handler may stop while the same thread closes.
        self._stopping = threading.RLock()

    def stop(self) -> None:
        super().stop()
        with self._stopping:
            if not self.is_closed:  # the next epoch has the same flags
                self._duplex.set_session_stop()

    def expect(self, unit: Unit) -> None:
        if self._loaded.ahead is not None:
            self._loaded.ahead.expect(unit, self.context.options.max_slice_nums)

    def _take_in(self, unit: Unit) -> None:
        began = time.monotonic()
        ahead = self._loaded.ahead
        self._prepared = inputs.decode(unit) if ahead is None else ahead.take(unit)
        self._prepare_ms = (time.monotonic() - began) * 1000

    def _feed(self, unit: Unit | None, *, sequence: int) -> Reply:
        prepared = self._take_prepared(unit)
        self._has_failed = True  # until the unit is closed
        prefilled_at = time.monotonic()
        prefilled = self._prefill(unit, prepared)
        generated_at = time.monotonic()
        generation_id = self._turns.begin_public_response()
        made = self._duplex.streaming_generate(
            max_new_speak_tokens_per_chunk=self.context.options.output_max_tokens_per_unit,
            **self._loaded.decode.generate_arguments(),
        )
        ended_at = time.monotonic()
        if self._stop.is_set():
            raise SessionStopped
        clocks = EngineClocks(
            prepare_ms=self._prepare_ms,
            prefill_ms=(generated_at - prefilled_at) * 1000,
            generate_ms=(ended_at - generated_at) * 1000,
            upstream_ms={**_costs("prefill", prefilled), **_costs("generate", made)},
        )
        answer = read_answer(made, self._duplex, was_turn_open=self._turns.is_open)
        reply = self._reply(answer, generation_id, sequence)
        self._turns.take(is_open=answer.is_turn_open, has_ended=answer.has_turn_ended)
        history.trim(self._duplex)
        self._has_failed = False
        return replace(reply, clocks=clocks)

    def _take_prepared(self, unit: Unit | None) -> NativeInputs:
        if unit is None:
            self._prepare_ms = 0.0
            return inputs.silence()
        prepared, self._prepared = self._prepared, None
        assert prepared is not None
        return prepared

    def _prefill(self, unit: Unit | None, prepared: NativeInputs) -> Mapping[str, Any]:
        decode = self._loaded.decode
        first_unit_samples = decode.first_chunk_ms * decode.sample_rate // 1000
        self._carry.take(unit, first_unit_samples=None if self._has_fed else first_unit_samples)
        self._has_fed = True
        prefilled = self._duplex.streaming_prefill(
            audio_waveform=prepared.samples,
            frame_list=prepared.frames,
            max_slice_nums=self.context.options.max_slice_nums,
            batch_vision_feed=decode.batch_vision_feed,
        )
        if self._stop.is_set():
            raise SessionStopped
        if prefilled.get("success") is not True:
            # Its unit marker and picture may be in the cache; only a reset takes them out.
            raise NativeFailed(f"the model did not take the unit: {prefilled.get('reason')}")
        self._carry.settle(len(self._duplex.audio_buffer))
        return prefilled

    def _reply(self, answer: Answer, generation_id: str, sequence: int) -> Reply:
        window = window_after(self._duplex, sequence)
        reply = replace(
            listening_reply(
                window_start_sequence=window.start_sequence, cached_tokens=window.cached_tokens
            ),
            tokens=answer.tokens,
        )
        if not answer.is_speaking:
            return reply
        return replace(
            reply,
            decision=Decision.SPEAK,
            text=self._public_text.of(answer.text),
            is_end_of_turn=answer.has_turn_ended,
            generation_id=generation_id,
        )

    def _needs_drain(self) -> bool:
        return self._is_turn_open() or not self._is_audio_consumed()

    def _is_audio_consumed(self) -> bool:
        return self._carry.source_samples == 0

    def _is_turn_open(self) -> bool:
        return self._turns.is_open

    def _reset(self) -> None:
        with self._stopping:
            self._reset_native(self._has_failed)


def _costs(call: str, answered: Mapping[str, Any]) -> dict[str, float]:
    """The `cost_*` figures of one native call, in milliseconds; both calls have a `cost_all`."""
    return {
        f"{call}_{name}": float(value) * 1000
        for name, value in answered.items()
        if name.startswith("cost_") and isinstance(value, int | float)
    }
