"""Reads the model's own books around its calls, so that a first run can say what it saw."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pipeline.engine.minicpm import loading
from pipeline.engine.minicpm.loading import Loaded
from pipeline.engine.minicpm.native import Duplex
from pipeline.engine.minicpm.text_only import INIT_TTS, text_only_duplex
from pipeline.prompt import CONTEXT_PREFIX, CONTEXT_SUFFIX

HISTORIES = ("total_hidden", "total_ids", "res_ids", "prefill_schema_tokens")
DRAWN = ("generated_tokens", "generated_special_tokens")


@dataclass(frozen=True, kw_only=True)
class NativeUnit:
    """The books around one unit's two native calls, of which the second may not have returned."""

    frame_pixels: tuple[int, ...]
    """Of each picture that was fed."""
    is_silence: bool
    """Whether every sample was zero."""
    cached_before: int
    cached_after_prefill: int
    buffer_at_encoder: int | None
    """Samples waiting when the audio encoder's processor was called, the model's own zeros among
    them; None where it has no such call."""
    buffer_after_prefill: int
    cached_after: int
    units_before: int
    units_after: int
    """Entries in the decoder's history."""
    is_listening: bool
    is_end_of_turn: bool
    tokens: int
    was_turn_open: bool
    is_turn_open: bool

    @property
    def is_window_kept(self) -> bool:
        """Nothing fell out, so that the cache's growth is what was fed."""
        return self.units_after == self.units_before + 1


@dataclass(frozen=True, kw_only=True)
class Books:
    """What the model holds at one moment."""

    cached: int
    units: int
    buffer: int
    has_audio_cache: bool | None
    """None where the model does not say."""
    protected: int | None
    """Tokens that never fall out; None where the decoder does not say."""
    histories: Mapping[str, int]
    """Lengths of what is collected for every unit."""
    drawn: int
    """The longer of the two lists that the repetition penalty looks back on."""


@dataclass
class Construction:
    """What the duplex form's constructor did with the speech renderer; None was not seen."""

    own_calls: int | None = None
    """How often the model's own `init_tts` ran."""
    is_restored: bool | None = None


@contextmanager
def watched_construction() -> Iterator[Construction]:
    """A block in which `loading.load` makes its duplex under observation."""
    seen = Construction()

    def watched(model: Any, **settings: Any) -> Duplex:
        kind = type(model)
        own = getattr(kind, INIT_TTS)
        seen.own_calls = 0

        @functools.wraps(own)
        def counted(*given: Any, **named: Any) -> Any:
            assert seen.own_calls is not None
            seen.own_calls += 1
            return own(*given, **named)

        setattr(kind, INIT_TTS, counted)
        try:
            duplex = text_only_duplex(model, **settings)
        finally:
            setattr(kind, INIT_TTS, own)
        seen.is_restored = INIT_TTS not in vars(model) and getattr(kind, INIT_TTS) is own
        return duplex

    module, name = vars(loading), text_only_duplex.__name__
    module[name] = watched
    try:
        yield seen
    finally:
        module[name] = text_only_duplex


@dataclass
class Witness:
    """Belongs to the engine's thread; changes nothing that the model computes."""

    loaded: Loaded
    units: list[NativeUnit] = field(default_factory=list)
    feeds: list[int] = field(default_factory=list)
    """Tokens of each decoder feed."""
    calls: int = 0
    """Prefills and generations that were begun."""
    _at_encoder: int | None = None
    _began: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator[Witness]:
        """Stand in front of the native calls until the block ends."""
        duplex = self.loaded.duplex
        processor = getattr(duplex, "processor", None)
        with ExitStack() as restored:
            for owner, name, stand_in in (
                (duplex, "streaming_prefill", self._prefill),
                (duplex, "streaming_generate", self._generate),
                (duplex.decoder, "feed", self._feed),
                (processor, "process_audio_streaming", self._encode),
            ):
                own = getattr(owner, name, None)
                if own is not None:
                    setattr(owner, name, functools.partial(stand_in, own))
                    restored.callback(delattr, owner, name)
            yield self

    def books(self) -> Books:
        duplex, model = self.loaded.duplex, self.loaded.model
        decoder = duplex.decoder
        histories = {name: len(getattr(duplex, name)) for name in HISTORIES}
        memory = getattr(model, "audio_past_key_values", self)
        return Books(
            cached=int(decoder.get_cache_length()),
            units=len(decoder._unit_history),
            buffer=len(duplex.audio_buffer),
            has_audio_cache=None if memory is self else memory is not None,
            protected=getattr(decoder, "_system_preserve_length", None),
            histories=histories,
            drawn=max(len(getattr(decoder, name)) for name in DRAWN),
        )

    def context_tokens(self, text: str) -> int:
        """By the loaded tokenizer."""
        encode = self.loaded.duplex.tokenizer.encode
        parts = (CONTEXT_PREFIX + text, CONTEXT_SUFFIX)
        return sum(len(encode(part, add_special_tokens=False)) for part in parts)

    def statistics_helper(self) -> str:
        """What the decoder's own statistics answer: the name of an error, or `returned`."""
        try:
            self.loaded.duplex.decoder.get_window_stats()
        except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
            return type(error).__name__
        return "returned"

    # --- in front of the native calls

    def _feed(self, own: Callable[..., Any], embeds: Any, *given: Any, **named: Any) -> Any:
        self.feeds.append(len(embeds))
        return own(embeds, *given, **named)

    def _encode(self, own: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self._at_encoder = len(self.loaded.duplex.audio_buffer)
        return own(*given, **named)

    def _prefill(self, own: Callable[..., Any], **inputs: Any) -> Any:
        self.calls += 1
        duplex = self.loaded.duplex
        self._at_encoder = None
        self._began = {
            "frame_pixels": tuple(frame.width * frame.height for frame in inputs["frame_list"]),
            "is_silence": not bool(inputs["audio_waveform"].any()),
            "cached_before": int(duplex.decoder.get_cache_length()),
            "units_before": len(duplex.decoder._unit_history),
            "was_turn_open": not duplex.current_turn_ended,
        }
        answer = own(**inputs)
        self._began |= {
            "cached_after_prefill": int(duplex.decoder.get_cache_length()),
            "buffer_at_encoder": self._at_encoder,
            "buffer_after_prefill": len(duplex.audio_buffer),
        }
        return answer

    def _generate(self, own: Callable[..., Any], **settings: Any) -> Any:
        self.calls += 1
        duplex = self.loaded.duplex
        answer = own(**settings)
        self.units.append(
            NativeUnit(
                **self._began,
                cached_after=int(duplex.decoder.get_cache_length()),
                units_after=len(duplex.decoder._unit_history),
                is_listening=bool(answer.get("is_listen")),
                is_end_of_turn=bool(answer.get("end_of_turn")),
                tokens=int(answer.get("n_tokens", 0)),
                is_turn_open=not duplex.current_turn_ended,
            )
        )
        return answer
