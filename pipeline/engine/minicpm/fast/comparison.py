"""Both decoders over the same seconds, made to listen or to speak, in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from pipeline.engine.minicpm import history, inputs
from pipeline.engine.minicpm.context import prepare_text_context
from pipeline.engine.minicpm.fast.agreement import Agreement, agree
from pipeline.engine.minicpm.fast.ahead import Ahead
from pipeline.engine.minicpm.fast.calls import Call, recorded
from pipeline.engine.minicpm.fast.check import Distances, check
from pipeline.engine.minicpm.fast.choice import FAST, OFFICIAL
from pipeline.engine.minicpm.fast.making import Fast, make_fast
from pipeline.engine.minicpm.fast.warming import warm
from pipeline.engine.minicpm.loading import CPU, Loaded
from pipeline.records import Unit

TOKENS_PER_UNIT = 79
"""Of a second with one picture of its overview, listened to."""

FULL_SHARE = 0.8
"""Of the window's high mark: most of an epoch is spent at that and more."""

CAP = 20
"""Draws of a speaking second: its marker, eighteen words, the chunk's end."""

COPY_BYTES = 2 * 1024**3
COPIES = 10
"""A buffer far beyond any cache of the device, copied so often."""

FORCED = 1e4
"""Added to a token's score, so that it is drawn whatever the weights are."""

CONTEXT = "Say in one sentence what is shown or said, whenever it changes. " * 30

AGREED_UNITS = 8
"""Of a window in which both are fed the same: it falls, to half of them, every few units."""

WARM_UNITS = 3
"""Before anything is timed: kernels are chosen, and shapes of pictures captured."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Seconds of one kind under one decoder."""

    decoder: str
    is_speaking: bool
    is_full: bool
    """Whether the window was nearly full."""
    cached_tokens: int
    """After the last of them."""
    unit_ms: tuple[float, ...]
    """From the encoded picture to the answer, the device waited for."""
    forwards: int
    """Passes through the language model in all of them."""
    parts_ms: Mapping[str, float]
    """Of the last of them, by the model code's own wall clock."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a run of both showed."""

    device: str
    cases: tuple[Case, ...]
    weight_bytes: int
    """Read by one forward pass of the language model."""
    copy_bytes_per_s: float
    """Read and written, of a copy within the device's memory."""
    peak_bytes: Mapping[str, int | None]
    """Most memory in tensors, by decoder; None where no GPU was used."""
    making_s: float
    """Until the fast decoder could be used."""
    distances: Distances
    agreement: Agreement

    @property
    def floor_ms(self) -> float:
        """No forward pass is faster than reading the weights."""
        return self.weight_bytes / self.copy_bytes_per_s * 1000


@dataclass
class _Course:
    """One decoder at work."""

    loaded: Loaded
    name: str
    units: Sequence[Unit]
    forwards: Callable[[], int]
    say: Callable[[str], None]
    ahead: Ahead | None = None
    cases: list[Case] = field(default_factory=list)
    _at: int = 0

    def run(self, count: int) -> None:
        duplex = self.loaded.duplex
        duplex.model.reset_session()
        self.loaded.seed(0)
        prepare_text_context(duplex, CONTEXT, threading.Event())
        with _forced(duplex) as force:
            for is_full in (False, True):
                if is_full:
                    self._fill()
                for is_speaking in (False, True):
                    self._case(force, count, is_speaking=is_speaking, is_full=is_full)
        duplex.decoder.reset()
        duplex.model.reset_session()
        duplex._reset_streaming_state()

    def record(self, count: int) -> list[Call]:
        """What units, every other one of which speaks, ask of the decoder in a small window."""
        loaded, duplex = self.loaded, self.loaded.duplex
        duplex.model.reset_session()
        loaded.seed(0)
        with _forced(duplex) as force, recorded(duplex.decoder) as calls:
            prepare_text_context(duplex, CONTEXT, threading.Event())
            for nth in range(count):
                force(nth % 2 == 1)
                self._unit()
        duplex.decoder.reset()
        duplex.model.reset_session()
        duplex._reset_streaming_state()
        return calls

    def _case(
        self, force: Callable[[bool], None], count: int, *, is_speaking: bool, is_full: bool
    ) -> None:
        for _ in range(WARM_UNITS):
            force(is_speaking)
            self._unit()
        before, took, parts = self.forwards(), [], {}
        for _ in range(count):
            force(is_speaking)
            began = time.monotonic()
            parts = self._unit()
            took.append((time.monotonic() - began) * 1000)
        case = Case(
            decoder=self.name,
            is_speaking=is_speaking,
            is_full=is_full,
            cached_tokens=int(self.loaded.duplex.decoder.get_cache_length()),
            unit_ms=tuple(took),
            forwards=self.forwards() - before,
            parts_ms=parts,
        )
        self.cases.append(case)
        self.say(
            f"{self.name}: {'speaking' if is_speaking else 'listening'},"
            f" {case.cached_tokens} tokens cached: {sorted(took)[count // 2]:.1f} ms"
        )

    def _unit(self) -> dict[str, float]:
        """As a session does it."""
        loaded, duplex = self.loaded, self.loaded.duplex
        unit, following = (self.units[(self._at + n) % len(self.units)] for n in (0, 1))
        self._at += 1
        if self.ahead is None:
            prepared = inputs.decode(unit)
        else:
            prepared = self.ahead.take(unit)
            self.ahead.expect(following, 1)
        prefilled = duplex.streaming_prefill(
            audio_waveform=prepared.samples,
            frame_list=prepared.frames,
            max_slice_nums=1,
            batch_vision_feed=loaded.decode.batch_vision_feed,
        )
        if prefilled["success"] is not True:
            raise RuntimeError(f"the model did not take a unit: {prefilled['reason']}")
        made = duplex.streaming_generate(
            max_new_speak_tokens_per_chunk=CAP, **loaded.decode.generate_arguments()
        )
        history.trim(duplex)
        _wait(loaded.device)
        return {
            name: float(value) * 1000
            for answered in (prefilled, made)
            for name, value in answered.items()
            if name.startswith("cost_") and name != "cost_all"
        }

    def _fill(self) -> None:
        """Units of anything until the window is nearly full."""
        decoder = self.loaded.duplex.decoder
        config = decoder._window_config
        words = self.loaded.duplex.tokenizer.encode(CONTEXT, add_special_tokens=False)
        some = decoder.embed_tokens(words[:TOKENS_PER_UNIT])
        while decoder.get_cache_length() < FULL_SHARE * config.basic_window_high_tokens:
            decoder.register_unit_start()
            decoder.feed(some)
            decoder.register_unit_end(input_type="omni", is_listen=True)


def compare(
    loaded: Loaded,
    units: Sequence[Unit],
    *,
    count: int,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Time `count` seconds of each kind, the official decoder first: it is measured in a process
    that holds nothing of the fast one. The model is left with the fast one.

    Raises NotFast where the two were not shown to say the same.
    """
    passes = 0

    def counted(*_: object) -> None:
        nonlocal passes
        passes += 1

    peaks: dict[str, int | None] = {}
    hook = loaded.model.llm.model.register_forward_pre_hook(counted)  # type: ignore[attr-defined]
    try:
        official = _Course(loaded, OFFICIAL, units, lambda: passes, say)
        with _peak(loaded.device, OFFICIAL, peaks):
            official.run(count)
        began = time.monotonic()
        fast = make_fast(loaded.duplex, is_graphed=loaded.device != CPU)
        distances = check(fast, is_exact=loaded.device == CPU)
        making_s = time.monotonic() - began
        say(f"fast decoder made and checked in {making_s:.1f} s: {distances}")
        fast.put_in()
        warm(loaded)
        ours = _Course(loaded, FAST, units, lambda: fast.steps.passes, say, fast.ahead)
        with _peak(loaded.device, FAST, peaks):
            ours.run(count)
    finally:
        hook.remove()
    agreement = compare_reads(loaded, fast, units, count=count, say=say)
    return Comparison(
        device=loaded.device if loaded.device == CPU else torch.cuda.get_device_name(0),
        cases=(*official.cases, *ours.cases),
        weight_bytes=fast.steps.network.weight_bytes,
        copy_bytes_per_s=_copy_bytes_per_s(loaded.device),
        peak_bytes=peaks,
        making_s=making_s,
        distances=distances,
        agreement=agreement,
    )


def compare_reads(
    loaded: Loaded,
    fast: Fast,
    units: Sequence[Unit],
    *,
    count: int,
    say: Callable[[str], None] = lambda text: None,
) -> Agreement:
    """Feed `count` units and their tokens to both, in a window small enough to fall meanwhile.

    The fast decoder is in, and stays in.
    """
    course = _Course(loaded, FAST, units, lambda: fast.steps.passes, say, fast.ahead)
    config = fast.official._window_config
    marks = config.basic_window_high_tokens, config.basic_window_low_tokens
    context = len(loaded.duplex.tokenizer.encode(CONTEXT, add_special_tokens=False))
    config.basic_window_high_tokens = context + AGREED_UNITS * TOKENS_PER_UNIT
    config.basic_window_low_tokens = context + AGREED_UNITS * TOKENS_PER_UNIT // 2
    try:
        return agree(fast, course.record(count), say=say)
    finally:
        config.basic_window_high_tokens, config.basic_window_low_tokens = marks


@contextmanager
def _forced(duplex: Any) -> Iterator[Callable[[bool], None]]:
    """Draws as always, from scores that leave it no choice but what it was told to say."""
    decoder = duplex.decoder
    ids = duplex.tokenizer.convert_tokens_to_ids
    listen, speak, chunk_end = map(ids, ("<|listen|>", "<|speak|>", "<|chunk_eos|>"))
    words = duplex.tokenizer.encode(CONTEXT, add_special_tokens=False)[: CAP - 2]
    draw = decoder.decode
    script: list[int] = []

    def force(is_speaking: bool) -> None:
        script[:] = [speak, *words, chunk_end] if is_speaking else [listen]
        # What was said in the unit before left a turn open; a forced listen needs it ended.
        duplex.current_turn_ended = True

    def forced(*, logits: Any, **sampling: Any) -> Any:
        token, scores = script.pop(0), logits.clone()
        scores[0, token] += FORCED
        drawn = draw(logits=scores, **sampling)
        if int(drawn) != token:
            raise RuntimeError(f"token {token} was to be said, and {int(drawn)} was drawn")
        return drawn

    decoder.decode = forced
    try:
        yield force
    finally:
        del decoder.decode


@contextmanager
def _peak(device: str, name: str, peaks: dict[str, int | None]) -> Iterator[None]:
    if device == CPU:
        yield
        peaks[name] = None
        return
    torch.cuda.reset_peak_memory_stats()
    yield
    peaks[name] = int(torch.cuda.max_memory_allocated())


def _wait(device: str) -> None:
    if device != CPU:
        torch.cuda.synchronize()


def _copy_bytes_per_s(device: str) -> float:
    size = COPY_BYTES if device != CPU else COPY_BYTES // 16
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    _wait(device)
    began = time.monotonic()
    for _ in range(COPIES):
        target.copy_(source)
    _wait(device)
    return 2 * size * COPIES / (time.monotonic() - began)
