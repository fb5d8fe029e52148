"""The snapshot's own stream decoder with another way to compute what it feeds."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from transformers import DynamicCache

from pipeline.engine.minicpm.fast.early import Early
from pipeline.engine.minicpm.fast.refusal import NotFast
from pipeline.engine.minicpm.fast.sampling import Sampler
from pipeline.engine.minicpm.fast.scores import Scores, States
from pipeline.engine.minicpm.fast.steps import TOKENS_MAX, Pass, Steps

DROP = "_drop_tokens_from_cache"
MODES = ("basic", "off")


class FastDecoder:
    """Goes before the official class: units, window and prompt stay that one's.

    A feed is held back until its scores are read, and joined with what comes after it. Tokens held
    back count as cached. They are computed before anything leaves the cache, as they would have
    been.
    """

    _steps: Steps
    _sampler: Sampler | None
    _early: Early
    _held: int
    """Tokens taken in and not yet computed."""
    _readers: list[tuple[int, weakref.ref[Scores]]]
    """Whose scores follow which of the held tokens."""
    _last: weakref.ref[Scores] | None
    """Whose scores are the steps' own memory."""
    _dropped: int
    """Tokens that left behind the prompt and are still in the cache."""
    _dropped_at: int

    # --- what the official methods ask for

    @property
    def cache(self) -> DynamicCache | None:
        """As the official one would have it, in the static cache's memory."""
        self._settle()
        held = self._steps.cache
        if held.length == 0:
            return None
        view = DynamicCache()
        pairs = held.layers()
        view.key_cache = [keys for keys, _ in pairs]
        view.value_cache = [values for _, values in pairs]
        view._seen_tokens = held.length
        return view

    @cache.setter
    def cache(self, wanted: None) -> None:
        if wanted is not None:
            raise ValueError("a cache from elsewhere cannot be taken; None, to forget, is accepted")
        self._early.clear()
        self._steps.clear()
        self._held, self._dropped, self._dropped_at = 0, 0, 0
        self._readers, self._last = [], None

    def get_cache_length(self) -> int:
        return self._steps.cache.length - self._dropped + self._held

    def embed_token(self, token: Any) -> Any:
        """A row of the embeddings, not a copy of it."""
        if isinstance(token, int) and token >= 0:
            return self._steps.network.embeddings[token : token + 1]
        return super().embed_token(token)  # type: ignore[misc]

    def feed(self, embeds: Any, return_logits: bool = False) -> tuple[Scores, States] | None:
        early = self._early.fed(embeds)
        if early is not None:
            return self._taken(early) if return_logits else None
        tokens = embeds.size(0)
        begin = 0
        while begin < tokens:
            if self._held == TOKENS_MAX or (self._held + tokens > TOKENS_MAX >= tokens):
                self._compute()
            taken = min(tokens - begin, TOKENS_MAX - self._held)
            self._steps.take(embeds[begin : begin + taken], at=self._held)
            self._held += taken
            begin += taken
        if not return_logits:
            return None
        scores = Scores(self._read)
        self._readers.append((self._held - 1, weakref.ref(scores)))
        return scores, States(tokens, self._steps.network.hidden)

    def decode(self, logits: Any, *args: Any, **sampling: Any) -> Any:
        self._early.forget()
        scores = logits.tensor if isinstance(logits, Scores) else logits
        if self._sampler is not None and not args and self._sampler.knows(sampling):
            begin = self._early.begin if self._may_begin() else None
            token = self._sampler.draw(scores, self.generated_tokens, begin=begin, **sampling)
            self._early.drawn(token)
            self._note(token)
            return torch.tensor([token])
        return super().decode(scores, *args, **sampling)  # type: ignore[misc]

    def _may_begin(self) -> bool:
        """Whether the pass over what is drawn now may be begun before it is fed."""
        if not self._early.draws() or self._held or self._dropped:
            return False
        self._keep_last()
        return True

    def _taken(self, made: Pass) -> tuple[Scores, States]:
        """The scores of a pass that was begun early."""
        scores = Scores(self._read)
        scores.made = made.scores
        self._last = None if made.is_kept else weakref.ref(scores)
        return scores, States(1, self._steps.network.hidden)

    def _note(self, token: int) -> None:
        """Into the official books; a chunk's end is in none of them."""
        if token == self.chunk_eos_id:  # type: ignore[attr-defined]
            return
        is_special = token in self.special_token_ids  # type: ignore[attr-defined]
        (self.generated_special_tokens if is_special else self.generated_tokens).append(token)

    def _drop_tokens_from_cache(self, length: int) -> bool:
        """Counted here; moved once, before anything looks at the cache again."""
        self._early.forget()
        if self._held:
            self._compute()
        head = self._system_preserve_length  # type: ignore[attr-defined]
        if head != self._dropped_at:
            self._settle()
            self._dropped_at = head
        if length <= 0 or self.get_cache_length() - min(head, self.get_cache_length()) < length:
            return False
        self._dropped += length
        if hasattr(self, "_position_offset"):
            self._position_offset += length
        return True

    generated_tokens: list[int]
    generated_special_tokens: list[int]

    # --- what is computed

    def _read(self, scores: Scores) -> Any:
        self._compute()
        return scores.made

    def _settle(self) -> None:
        """Nothing held back, nothing begun early, nothing still to leave."""
        self._early.forget()
        if self._held:
            self._compute()
        self._move()

    def _move(self) -> None:
        if self._dropped:
            with torch.no_grad():
                self._steps.cache.drop(self._dropped_at, self._dropped)
            self._dropped = 0

    def _keep_last(self) -> None:
        """Scores in the steps' own memory get theirs: a pass comes."""
        last = self._last() if self._last is not None else None
        if last is not None:
            last.made = last.made.clone()
        self._last = None

    def _compute(self) -> None:
        """One pass over everything held back."""
        self._move()
        self._keep_last()
        if not self._held:
            return
        tokens = self._held
        made = self._steps.run(tokens)
        self._early.passed(tokens)
        self._held = 0
        readers, self._readers = self._readers, []
        for at, reader in readers:
            scores = reader()
            if scores is None:
                continue
            if at == tokens - 1:
                scores.made = made.scores
                self._last = None if made.is_kept else reader
            else:
                scores.made = self._steps.scores(made.states[at : at + 1])


def fast_decoder(official: Any, steps: Steps, sampler: Sampler | None) -> Any:
    """A decoder with the books of `official`, whose class it extends. Raises NotFast."""
    mode = official._window_config.sliding_window_mode
    if mode not in MODES:
        raise NotFast(f"its window is {mode!r}; basic or off is accepted")
    kind = type(official)
    if not callable(getattr(kind, DROP, None)):
        raise NotFast(f"its decoder has no {DROP}")
    made: Any = object.__new__(type(f"Fast{kind.__name__}", (FastDecoder, kind), {}))
    vars(made).update(
        {name: value for name, value in vars(official).items() if name != "cache"},
        _steps=steps,
        _sampler=sampler,
        _early=Early(steps, turn_end=getattr(official, "turn_eos_id", None)),
    )
    made.cache = None
    made.reset()
    return made
