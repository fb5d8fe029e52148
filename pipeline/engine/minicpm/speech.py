"""What of a unit's answer is public."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.engine.minicpm.native import Duplex, NativeFailed


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One unit's answer, checked."""

    is_speaking: bool
    text: str
    """As the model's own code decoded it."""
    tokens: int
    """Text tokens, as the model's own code counts them."""
    is_turn_open: bool
    has_turn_ended: bool


def read_answer(made: Mapping[str, Any], duplex: Duplex, *, was_turn_open: bool) -> Answer:
    """Raises NativeFailed for an answer that no completed unit gives.

    The model's own code says `listen` for two units that are something else: one that ended its
    turn and then listened (its last words are only in the window's books), and one that said
    nothing at all it calls spoken.
    """
    is_listening, is_end = made.get("is_listen"), made.get("end_of_turn")
    text, tokens = made.get("text"), made.get("n_tokens")
    if not (isinstance(is_listening, bool) and isinstance(is_end, bool)):
        raise NativeFailed("the model's code did not say whether it listens and whether it ended")
    if not (isinstance(text, str) and isinstance(tokens, int) and tokens >= 0):
        raise NativeFailed("the model's code gave no text or no count of tokens")
    if is_listening and is_end:
        # What it answers when it was stopped between prefill and generation: the unit is open.
        raise NativeFailed("the model's code left the unit open")
    is_turn_open = not duplex.current_turn_ended
    has_ended = is_end or (not is_turn_open and (was_turn_open or tokens > 0))
    if is_listening and tokens > 0:
        text = _words_of_last_unit(duplex)
    return Answer(
        is_speaking=has_ended or is_turn_open,
        text=text,
        tokens=tokens,
        is_turn_open=is_turn_open,
        has_turn_ended=has_ended,
    )


def _words_of_last_unit(duplex: Duplex) -> str:
    history = duplex.decoder._unit_history
    words = history[-1].get("generated_text", "") if history else ""
    return words if isinstance(words, str) else ""


class PublicText:
    """Takes control tokens out of generated text, however they got into it."""

    def __init__(self, control_tokens: Iterable[str]) -> None:
        spellings = sorted({token for token in control_tokens if token}, key=len, reverse=True)
        self._controls = re.compile("|".join(map(re.escape, spellings))) if spellings else None

    def of(self, text: str) -> str:
        return text if self._controls is None else self._controls.sub("", text)
