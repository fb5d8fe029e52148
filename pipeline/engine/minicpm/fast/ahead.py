"""Prepares the second that comes next on the processor while the device computes this one."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.engine.minicpm import inputs
from pipeline.engine.minicpm.inputs import NativeInputs
from pipeline.engine.session import check_unit
from pipeline.errors import UnitRefused
from pipeline.records import Unit

ASKED = {"reset": False, "return_batch_feature": True}
"""How the official prefill asks for a spectrum."""


@dataclass(frozen=True, kw_only=True)
class _Spectrum:
    """Made by a copy of the processor; it counts where the processor is as it was copied."""

    samples: Any
    owner: Any
    before: dict[str, Any]
    answer: Any
    after: dict[str, Any]
    extractor_after: dict[str, Any]


class Ahead:
    """One thread beside the engine's. A guess that does not come true costs nothing but its time:
    everything is done again as the official code does it.
    """

    def __init__(self, duplex: Any, look_ahead: Callable[[list[Any], int], None] | None) -> None:
        self._duplex = duplex
        self._processor: Any = getattr(duplex, "processor", None)
        self._official = getattr(self._processor, "process_audio_streaming", None)
        self._look_ahead = look_ahead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="omnai-ahead")
        self._expected: deque[tuple[Unit, Future[NativeInputs]]] = deque(maxlen=2)
        """The one that is fed next, until it is, and the one after it."""
        self._spectrum: Future[_Spectrum] | None = None
        self.decoded = 0
        """Units that were begun before they were fed."""
        self.used = 0
        """Spectra that were there when they were asked for."""

    def expect(self, unit: Unit, max_slice_nums: int) -> None:
        """Begin with the unit after the one that is fed next."""
        prepared = self._thread.submit(self._decoded, unit, max_slice_nums)
        self._expected.append((unit, prepared))

    def take(self, unit: Unit) -> NativeInputs:
        """Of a unit that is fed now. Raises UnitRefused."""
        for entry in self._expected:
            if entry[0] is unit:
                self._expected.remove(entry)
                error = entry[1].exception()
                if error is None or isinstance(error, UnitRefused):
                    self.decoded += 1
                    return entry[1].result()
        return inputs.decode(unit)

    def process_audio_streaming(self, audio_chunk: Any, **asked: Any) -> Any:
        """In the place of the processor's own; then begins with the expected unit's."""
        assert self._official is not None
        waiting, self._spectrum = self._spectrum, None
        made = None
        if waiting is not None and asked == ASKED and waiting.exception() is None:
            made = waiting.result()
        if made is not None and self._is_true(made, audio_chunk):
            vars(made.owner).update(made.after)
            vars(made.owner.feature_extractor).update(made.extractor_after)
            self.used += 1
            answer = made.answer
        else:
            answer = self._official(audio_chunk, **asked)
        if asked == ASKED and self._expected:
            rest = np.array(self._duplex.audio_buffer[len(audio_chunk) :])
            self._begin(self._expected[-1][1], rest)
        return answer

    def _decoded(self, unit: Unit, max_slice_nums: int) -> NativeInputs:
        check_unit(unit)
        prepared = inputs.decode(unit)
        if self._look_ahead is not None and prepared.frames:
            self._look_ahead(prepared.frames, max_slice_nums)
        return prepared

    def _begin(self, prepared: Future[NativeInputs], rest: Any) -> None:
        """A copy of the processor as it is now goes to the thread."""
        owner = self._processor._streaming_mel_processor
        twin = copy.copy(self._processor)
        vars(twin).pop("process_audio_streaming", None)
        twin._streaming_mel_processor = copy.copy(owner)
        twin._streaming_mel_processor.feature_extractor = copy.copy(owner.feature_extractor)
        before = dict(vars(owner))
        need = int(self._processor.get_streaming_chunk_size())

        def make() -> _Spectrum:
            samples = np.concatenate([rest, prepared.result().samples])[:need]
            answer = type(twin).process_audio_streaming(twin, samples, **ASKED)
            after = dict(vars(twin._streaming_mel_processor))
            return _Spectrum(
                samples=samples,
                owner=owner,
                before=before,
                answer=answer,
                extractor_after=dict(vars(after.pop("feature_extractor"))),
                after=after,
            )

        self._spectrum = self._thread.submit(make)

    def _is_true(self, made: _Spectrum, samples: Any) -> bool:
        now = self._processor._streaming_mel_processor
        return (
            now is made.owner
            and vars(now).keys() == made.before.keys()
            and all(vars(now)[name] is value for name, value in made.before.items())
            and np.array_equal(made.samples, samples)
        )
