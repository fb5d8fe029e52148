"""One loaded native model under test: what it is fed, what it is made to say, what it holds."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import DynamicCache, EncoderDecoderCache

from pipeline.engine.minicpm import loading
from pipeline.engine.minicpm.context import prepare_text_context
from pipeline.engine.minicpm.engine import MinicpmoEngine
from pipeline.engine.minicpm.fast.choice import FAST, with_decoder
from pipeline.engine.minicpm.loading import CPU, Loaded
from pipeline.engine.minicpm.lock import ModelLock, read_lock
from pipeline.engine.minicpm.text_only import text_only_duplex
from tests.native.processor import Numbers
from tests.native.tiny import Model

FORCED = 1e4
"""Added to a token's score, so that it is drawn whatever the weights are."""


def load_double(*, seed: int = 0) -> Loaded:
    """A new tiny network in the adapter's own record."""
    torch.set_num_threads(1)
    lock, model = read_lock(), Model(seed=seed)
    loading.check_tokens(model.tokenizer, lock)  # type: ignore[arg-type]
    return Loaded(
        model=model,
        duplex=text_only_duplex(model, **loading.duplex_settings(lock.decode)),
        decode=lock.decode,
        revision=lock.revision,
        device=CPU,
        control_tokens=loading.control_tokens(model.tokenizer, lock),  # type: ignore[arg-type]
        settings={},
        seed=torch.manual_seed,
        check_device=lambda: None,
    )


def load_snapshot(folder: Path) -> Loaded:
    """Through the adapter's own loading; any weights will do, so no fingerprint is asked for."""
    device = "cuda:0" if torch.cuda.is_available() else CPU
    if device == CPU:
        torch.set_num_threads(1)  # the same sums in every process
    return loading.load(
        folder, _without_fingerprints(read_lock()), device=device, allow_unverified=True
    )


def with_fast_decoder(loaded: Loaded) -> Loaded:
    """Where it was shown to say the same, and nowhere else may the tests go on."""
    made = with_decoder(loaded, FAST)
    assert made.settings["decoder"] == FAST, made.settings
    return made


def _without_fingerprints(lock: ModelLock) -> ModelLock:
    return replace(
        lock,
        sources=tuple(replace(file, fingerprint=None) for file in lock.sources),
        companions=tuple(replace(file, fingerprint=None) for file in lock.companions),
    )


@dataclass
class Record:
    """What passed through the decoder."""

    feeds: list[int] = field(default_factory=list)
    """Tokens of each feed, in order."""
    logits: list[Numbers] = field(default_factory=list)
    """Scores that each draw began from."""
    before_feed: Callable[[int], None] = lambda nth: None
    """Called with the number of feeds so far."""

    @property
    def tokens(self) -> int:
        return sum(self.feeds)


class Native:
    """Every test gets it as a process that has just loaded would be."""

    def __init__(self, loaded: Loaded, *, kind: str) -> None:
        self.loaded = loaded
        self.kind = kind
        """What `tests.native.conftest.load` was asked for."""
        self.duplex: Any = loaded.duplex
        self.model: Any = loaded.model
        self.decoder: Any = loaded.duplex.decoder
        self._script: deque[int] = deque()

    @property
    def is_double(self) -> bool:
        return self.kind.startswith("tiny")

    @property
    def is_exact(self) -> bool:
        """Whether sums are float32 on the CPU."""
        return self.loaded.device == CPU

    @contextlib.contextmanager
    def watched(self) -> Iterator[Record]:
        """Record feeds and draws; a draw gives the next scripted token, else it listens."""
        record, decoder = Record(), self.decoder
        feed, decode = decoder.feed, decoder.decode

        def watched_feed(embeds: torch.Tensor, *args: Any, **named: Any) -> Any:
            record.before_feed(len(record.feeds))
            record.feeds.append(len(embeds))
            return feed(embeds, *args, **named)

        def steered_decode(logits: torch.Tensor, *args: Any, **named: Any) -> Any:
            record.logits.append(logits[0].float().cpu().numpy().copy())
            wanted = self._script.popleft() if self._script else self.duplex.listen_token_id
            logits = logits.clone()
            logits[0, wanted] += FORCED
            return decode(logits, *args, **named)

        decoder.feed, decoder.decode = watched_feed, steered_decode
        try:
            yield record
        finally:
            del decoder.feed, decoder.decode
            self._script.clear()

    # --- what it is made to say

    def token(self, spelling: str) -> int:
        return int(self.duplex.tokenizer.convert_tokens_to_ids(spelling))

    def word(self, text: str = "a") -> int:
        (token,) = self.duplex.tokenizer.encode(text, add_special_tokens=False)
        return int(token)

    def will_draw(self, *tokens: int) -> None:
        self._script.extend(tokens)

    def will_speak(self, words: int, *, ends_turn: bool = False) -> None:
        """The marker, so many words, the turn's end where asked for, the chunk's end."""
        self.will_draw(self.token("<|speak|>"), *[self.word()] * words)
        if ends_turn:
            self.will_draw(self.token("<|turn_eos|>"))
        self.will_draw(self.token("<|chunk_eos|>"))

    # --- the native calls, without a session

    def begin(self, text: str = "watch", *, seed: int = 0) -> int:
        self.model.reset_session()
        torch.manual_seed(seed)
        return prepare_text_context(self.duplex, text, threading.Event())

    def prefill(self, samples: Numbers, frame: Image.Image | None = None, slices: int = 2) -> Any:
        return self.duplex.streaming_prefill(
            audio_waveform=samples,
            frame_list=[] if frame is None else [frame],
            max_slice_nums=slices,
            batch_vision_feed=True,
        )

    def generate(self, **changes: Any) -> Any:
        return self.duplex.streaming_generate(
            **{"max_new_speak_tokens_per_chunk": 20, **self.loaded.decode.generate_arguments()}
            | changes
        )

    def second(self, nth: int, *, frame: Image.Image | None = None) -> Any:
        """Feed one unit of noise and answer it."""
        assert self.prefill(noise(nth), frame)["success"] is True
        return self.generate()

    # --- what it holds

    def cache(self) -> list[tuple[Numbers, Numbers]]:
        """Keys and values of each layer, shape [heads, tokens, size]."""
        cache = self.decoder.cache
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        return [(_array(keys[0]), _array(values[0])) for keys, values in pairs]

    @contextlib.contextmanager
    def narrow(self, *, high: int, low: int) -> Iterator[None]:
        """A smaller window, so that it falls after a few units."""
        config = self.decoder._window_config
        before = config.basic_window_high_tokens, config.basic_window_low_tokens
        config.basic_window_high_tokens, config.basic_window_low_tokens = high, low
        try:
            yield
        finally:
            config.basic_window_high_tokens, config.basic_window_low_tokens = before

    def engine(self) -> MinicpmoEngine:
        return MinicpmoEngine(self.loaded)

    def restore(self) -> None:
        """As after loading, stop flags included."""
        self.duplex.clear_break_event()
        self.duplex.clear_session_stop()
        self.model.reset_session()
        self.duplex._reset_streaming_state()
        self.decoder.reset()


def _array(tensor: torch.Tensor) -> Numbers:
    return tensor.detach().float().cpu().numpy().copy()


def noise(seed: int, samples: int = 16_000) -> Numbers:
    drawn = np.random.default_rng(seed).normal(0, 0.1, samples)
    return np.clip(drawn, -1, 1).astype(np.float32)


def picture(seed: int = 0, *, width_px: int = 448, height_px: int = 252) -> Image.Image:
    drawn = np.random.default_rng(seed).integers(
        0, 255, (height_px // 4, width_px // 4, 3), np.uint8
    )
    return Image.fromarray(drawn).resize((width_px, height_px))


def remembered_bytes(native: Native) -> int:
    """Of the decoder's window and of the audio encoder, which forgets by itself every half minute:
    how much they hold depends on the second, not on how long the epoch has run."""
    held = (native.decoder.cache, native.model.audio_past_key_values)
    return sum(tensor.untyped_storage().nbytes() for tensor in _tensors(held))


def _tensors(thing: Any) -> Iterator[torch.Tensor]:
    """Of a tensor, a row of them, or one of the caches of Transformers."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from _tensors(part)
    elif isinstance(thing, DynamicCache):
        yield from [*thing.key_cache, *thing.value_cache]
    elif isinstance(thing, EncoderDecoderCache):
        yield from _tensors((thing.self_attention_cache, thing.cross_attention_cache))


def live_tensor_bytes() -> int:
    """Bytes of every tensor that anything still refers to."""
    gc.collect()
    seen: dict[int, int] = {}
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor:
            storage = thing.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
    return sum(seen.values())
