"""What a first run saw of the model, each thing beside what the adapter relies on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from omnai.trial.course import Course
from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.engine.minicpm.context import BATCH_TOKENS
from pipeline.engine.minicpm.history import REPETITION_WINDOW_TOKENS
from pipeline.engine.session import DRAIN_UNITS_MAX
from pipeline.records import Decision, EngineInfo, Options, Reply

if TYPE_CHECKING:
    from pipeline.engine.minicpm.lock import DecodeSettings
    from pipeline.engine.minicpm.witness import Books, Construction, NativeUnit

# Of one unit (docs: native contract, "One unit").
UNIT_AND_AUDIO_TOKENS = 1 + 10
FRAME_TOKENS = 66
WHOLE_FRAME_PIXELS = 448 * 448
"""A larger picture may be cut into slices, each of which costs tokens of its own."""
LISTEN_TOKENS = 2
"""The listen token, then the unit's end."""
SPEAK_TOKENS = 3
"""Around the text tokens: the speak marker, the chunk's end, the unit's end."""
CONTROL_TOKENS = 2
"""Of a unit's cap, these are no text."""

FIRST_UNIT_SAMPLES = 16_560
FIRST_UNIT_CONSUMED = 16_480
CARRIED_SAMPLES = 80


class Standing(str, Enum):
    """How one thing that the adapter relies on stood in this run."""

    OBSERVED = "observed"
    NOT_OBSERVED = "not observed"
    DIFFERS = "differs"


Value = bool | int | str | None


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing that was looked for."""

    name: str
    """Stable, for programs."""
    standing: Standing
    expected: Value
    found: tuple[Value, ...]
    """Every different value; empty where nothing was seen."""
    times: int
    """How often it was seen."""
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Everything that one run saw."""

    info: EngineInfo
    decode: DecodeSettings
    options: Options
    construction: Construction
    forced_listening: int | None
    context_tokens: int
    """As the loaded tokenizer counts them."""
    context_feeds: tuple[int, ...]
    """Tokens of each decoder feed while the context went in."""
    prepared: Books
    reopening: tuple[bool, int] | None
    """Whether the same context gave the same session, and the native feeds it took."""
    damaged_unit: tuple[bool, int] | None
    """Whether a unit with a NaN was refused, and the native calls it took."""
    repeated_unit: tuple[bool, int] | None
    """Whether a repeated unit got the same reply, and the native calls it took."""
    after_units: tuple[Books, ...]
    """Between two units of the source."""
    natives: tuple[NativeUnit, ...]
    """One for each reply, in order."""
    course: Course
    statistics_helper: str
    closed: Books


def facts(seen: Seen) -> tuple[Fact, ...]:
    """In the order of a run."""
    return (
        *_of_loading(seen),
        *_of_context(seen),
        *_of_units(seen),
        *_of_speech(seen),
        *_of_window(seen),
        *_of_end(seen),
    )


def _fact(name: str, subject: str, expected: Value, values: Iterable[Value]) -> Fact:
    """Holds where every value is the expected one; without a value nothing is claimed."""
    found = list(values)
    others = [value for value in found if value != expected]
    distinct = tuple(dict.fromkeys(found))
    if not found:
        standing, said = Standing.NOT_OBSERVED, "not observed in this run"
    elif others:
        standing = Standing.DIFFERS
        named = ", ".join(_word(value) for value in dict.fromkeys(others))
        said = f"{named} in {len(others)} of {len(found)} observations; expected {_word(expected)}"
    else:
        standing = Standing.OBSERVED
        said = f"{_word(expected)}, in {len(found)} of {len(found)} observations"
    return Fact(
        name=name,
        standing=standing,
        expected=expected,
        found=distinct,
        times=len(found),
        sentence=f"{subject}: {said}.",
    )


def _word(value: Value) -> str:
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case None:
            return "unknown"
        case int():
            return f"{value:,}"
        case _:
            return value


def _known(*values: Hashable) -> list[Value]:
    """Drops what could not be seen."""
    return [value for value in values if isinstance(value, bool | int | str)]


# --- loading


def _of_loading(seen: Seen) -> Iterator[Fact]:
    settings = seen.info.settings
    unverified = settings.get("unverified_files")
    yield _fact(
        "snapshot_verified",
        "Every locked file of the snapshot has its recorded hash",
        True,
        # What was let through unverified was not found wrong: nobody knows.
        [True] if settings.get("verified_files") and unverified is None else [],
    )
    on_gpu = str(seen.info.device).startswith("cuda")
    dtypes = [value for name, value in settings.items() if name.endswith("_dtype")]
    loaded = [value for value in dtypes if str(value).startswith("torch.")]
    yield _fact(
        "weights_dtype",
        "Type of the loaded weights",
        f"torch.{seen.decode.torch_dtype}",
        _known(*loaded) if on_gpu else [],
    )
    yield _fact(
        "attention",
        "Form of the language model's attention",
        seen.decode.attn_implementation,
        _known(settings.get("llm_attention_form")),
    )
    yield _fact(
        "init_tts_not_run",
        "Calls of the model's own init_tts while its duplex form was made",
        0,
        _known(seen.construction.own_calls),
    )
    yield _fact(
        "init_tts_restored",
        "The model has its own init_tts again afterwards",
        True,
        _known(seen.construction.is_restored),
    )
    yield _fact(
        "forced_listening", "Units that are forced to listen", 0, _known(seen.forced_listening)
    )


# --- the context


def _of_context(seen: Seen) -> Iterator[Fact]:
    tokens, prepared = seen.context_tokens, seen.prepared
    yield _fact("context_cached", "Tokens cached once the context is in", tokens, [prepared.cached])
    yield _fact(
        "protected_boundary",
        "Tokens protected from the window, after the context and after each unit",
        tokens,
        _known(prepared.protected, *(books.protected for books in seen.after_units)),
    )
    yield _fact(
        "context_batches",
        f"The context went in by batches of at most {BATCH_TOKENS} tokens",
        True,
        [size <= BATCH_TOKENS for size in seen.context_feeds],
    )
    yield from _without_calls(
        "reopening", "Opening again with the same context gives the same session", seen.reopening
    )


def _without_calls(name: str, subject: str, tried: tuple[bool, int] | None) -> Iterator[Fact]:
    held = [] if tried is None else [tried[0]]
    calls: list[Value] = [] if tried is None else [tried[1]]
    yield _fact(name, subject, True, held)
    yield _fact(f"{name}_native_calls", f"{subject}: native calls for it", 0, calls)


# --- units


def _of_units(seen: Seen) -> Iterator[Fact]:
    yield from _without_calls(
        "damaged_unit", "A unit with a NaN is refused and the session goes on", seen.damaged_unit
    )
    yield from _without_calls(
        "repeated_unit", "A repeated unit gets the reply that was kept", seen.repeated_unit
    )
    first, later = seen.natives[:1], seen.natives[1:]
    encoded = [unit for unit in first if unit.buffer_at_encoder is not None]
    yield _fact(
        "first_unit_samples",
        "Samples in the native buffer when the first unit is encoded",
        FIRST_UNIT_SAMPLES,
        _known(*(unit.buffer_at_encoder for unit in encoded)),
    )
    yield _fact(
        "first_unit_consumed",
        "Samples that the first unit consumes",
        FIRST_UNIT_CONSUMED,
        [(unit.buffer_at_encoder or 0) - unit.buffer_after_prefill for unit in encoded],
    )
    yield _fact(
        "first_unit_left",
        "Samples left in the native buffer after the first unit",
        CARRIED_SAMPLES,
        [unit.buffer_after_prefill for unit in first],
    )
    yield _fact(
        "later_units_consumed",
        "Samples that a later unit consumes",
        SAMPLES_PER_UNIT,
        [
            unit.buffer_at_encoder - unit.buffer_after_prefill
            for unit in later
            if unit.buffer_at_encoder is not None
        ],
    )
    yield _fact(
        "later_units_left",
        "Samples left in the native buffer after a later unit",
        CARRIED_SAMPLES,
        [unit.buffer_after_prefill for unit in later],
    )
    yield from _of_growth(seen.natives)
    yield _fact(
        "histories_trimmed",
        "Entries of the unused histories after a unit",
        0,
        [sum(books.histories.values()) for books in seen.after_units],
    )
    yield _fact(
        "repetition_window",
        f"At most {REPETITION_WINDOW_TOKENS} drawn tokens are kept after a unit",
        True,
        [books.drawn <= REPETITION_WINDOW_TOKENS for books in seen.after_units],
    )


def _of_growth(natives: Sequence[NativeUnit]) -> Iterator[Fact]:
    def prefilled(unit: NativeUnit) -> int:
        return unit.cached_after_prefill - unit.cached_before

    yield _fact(
        "prefill_tokens_without_frame",
        "Tokens that a unit without a picture adds before the answer",
        UNIT_AND_AUDIO_TOKENS,
        [prefilled(unit) for unit in natives if not unit.frame_pixels],
    )
    yield _fact(
        "prefill_tokens_with_frame",
        "Tokens that a unit with one small picture adds before the answer",
        UNIT_AND_AUDIO_TOKENS + FRAME_TOKENS,
        [
            prefilled(unit)
            for unit in natives
            if len(unit.frame_pixels) == 1 and unit.frame_pixels[0] <= WHOLE_FRAME_PIXELS
        ],
    )
    yield _fact(
        "listening_tokens",
        "Tokens that a listening answer adds",
        LISTEN_TOKENS,
        [
            unit.cached_after - unit.cached_after_prefill
            for unit in natives
            if unit.is_listening and unit.tokens == 0 and unit.is_window_kept
        ],
    )
    yield _fact(
        "speaking_tokens",
        "Tokens that a speaking answer adds around its text",
        SPEAK_TOKENS,
        [
            unit.cached_after - unit.cached_after_prefill - unit.tokens
            for unit in natives
            if unit.tokens > 0 and unit.is_window_kept
        ],
    )


# --- speech


def _of_speech(seen: Seen) -> Iterator[Fact]:
    cap = seen.options.output_max_tokens_per_unit - CONTROL_TOKENS
    speaking = [unit for unit in seen.natives if unit.tokens > 0]
    yield _fact(
        "text_tokens_cap",
        f"A unit says at most {cap} text tokens",
        True,
        [unit.tokens <= cap for unit in speaking],
    )
    yield _fact(
        "turn_kept_open",
        "A turn that was open goes on or ends, and never listens instead",
        True,
        [not unit.is_listening or unit.tokens > 0 for unit in seen.natives if unit.was_turn_open],
    )
    spoken = [step.reply for step in seen.course.steps if step.reply.decision is Decision.SPEAK]
    yield _fact(
        "generation_ids",
        "The generation id changes between two spoken replies exactly where a turn ended",
        True,
        [_is_renamed(*pair) == pair[0].is_end_of_turn for pair in pairwise(spoken)],
    )
    yield _fact(
        "listening_is_nameless",
        "A listening reply has neither text nor generation id",
        True,
        [
            not step.reply.text and step.reply.generation_id is None
            for step in seen.course.steps
            if step.reply.decision is Decision.LISTEN
        ],
    )


def _is_renamed(earlier: Reply, later: Reply) -> bool:
    return earlier.generation_id != later.generation_id


# --- the window


def _of_window(seen: Seen) -> Iterator[Fact]:
    natives = seen.natives
    yield _fact(
        "window_tokens_reported",
        "The reply's count of cached tokens is the decoder's",
        True,
        [
            step.reply.cached_tokens == native.cached_after
            for step, native in zip(seen.course.steps, natives, strict=False)
        ],
    )
    yield _fact(
        "window_units",
        "Entries that a unit adds to the decoder's history while the window is not full",
        1,
        [
            unit.units_after - unit.units_before
            for unit in natives
            if unit.cached_after >= unit.cached_before
        ],
    )
    high = seen.decode.basic_window_high_tokens
    yield _fact(
        "window_high",
        f"At most {high:,} tokens are cached after a unit",
        True,
        [unit.cached_after <= high for unit in natives],
    )
    yield _fact(
        "window_low",
        f"A window that overflowed falls to at most {seen.decode.basic_window_low_tokens:,} tokens",
        True,
        [
            unit.cached_after <= seen.decode.basic_window_low_tokens
            for unit in natives
            if unit.units_after <= unit.units_before
        ],
    )
    yield _fact(
        "statistics_helper",
        "What the decoder's own get_window_stats, which is never used, ends in",
        AttributeError.__name__,
        [seen.statistics_helper],
    )


# --- the end


def _of_end(seen: Seen) -> Iterator[Fact]:
    course, closed = seen.course, seen.closed
    drained = [step for step in course.steps if step.reply.drain is not None]
    has_ended = course.fault is None
    yield _fact(
        "drain_consumed",
        "All audio of the source was taken in by the end of the drain",
        True,
        [course.end.is_audio_consumed] if has_ended else [],
    )
    yield _fact(
        "drain_units",
        f"The drain takes at most {DRAIN_UNITS_MAX} units",
        True,
        [len(drained) <= DRAIN_UNITS_MAX] if has_ended else [],
    )
    yield _fact(
        "drain_is_silence",
        "A unit of the drain has silence and no picture",
        True,
        [
            native.is_silence and not native.frame_pixels
            for step, native in zip(course.steps, seen.natives, strict=False)
            if step.reply.drain is not None
        ],
    )
    yield _fact("reset_cache", "Tokens cached after the session's end", 0, [closed.cached])
    yield _fact("reset_units", "Units in the window after the session's end", 0, [closed.units])
    yield _fact("reset_buffer", "Samples in the native buffer after the end", 0, [closed.buffer])
    had_memory = any(books.has_audio_cache for books in seen.after_units)
    yield _fact(
        "reset_audio_cache",
        "The audio encoder's memory, which it had, is empty after the end",
        True,
        _known(None if closed.has_audio_cache is None else not closed.has_audio_cache)
        if had_memory
        else [],
    )
