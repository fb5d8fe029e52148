"""The official draw, step by step the same, in two stretches without a word from the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pipeline.engine.minicpm.fast.graphs import Pool, Repeated

KNOWN: Mapping[str, Any] = {
    "mode": "sampling",
    "temperature": 0.7,
    "top_k": 20,
    "top_p": 0.8,
    "listen_top_k": None,
    "listen_prob_scale": 1.0,
    "text_repetition_penalty": 1.05,
    "text_repetition_window_size": 512,
    "length_penalty": 1.0,
}
"""What a draw may be asked for, and what it is where neither the call nor the official signature
says; one without a length penalty has none."""

NO_NUMBER = "probability tensor contains either `inf`, `nan` or element < 0"
"""What torch says of it; on a GPU it would end the process's CUDA context."""


class Sampler:
    """Draws as the decoder it was made for, from the same random numbers."""

    def __init__(self, official: Any, *, is_graphed: bool) -> None:
        asked = inspect.signature(type(official).decode).parameters
        self._defaults: dict[str, Any] = dict(KNOWN) | {
            name: parameter.default
            for name, parameter in asked.items()
            if parameter.default is not parameter.empty
        }
        self._is_known = set(self._defaults) == set(KNOWN)
        self._chunk_end = int(official.chunk_eos_id)
        self._turn_end = int(getattr(official, "turn_eos_id", -1))
        self._listen = int(getattr(official, "listen_id", -1))
        device = official.m.lm_head.weight.device
        self._vocabulary = len(official.m.lm_head.weight)
        forbidden = sorted({token % self._vocabulary for token in official.forbidden_token_ids})
        self._forbidden = torch.tensor(forbidden, dtype=torch.long, device=device)
        self._generator: Any = None
        if device.type == "cuda":
            self._generator = torch.cuda.default_generators[torch.cuda.current_device()]
        self._given: Any = None
        self._told: Any = None
        self._recent: Any = None
        self._of_first, self._of_second = (Told(2, device=device) for _ in range(2))
        self._repeated: dict[tuple[object, ...], Repeated] = {}
        self._pool = Pool(is_graphed=is_graphed)
        self._device = device

    def knows(self, sampling: Mapping[str, Any]) -> bool:
        """Whether a draw as asked for is one that this one can do."""
        asked = self._defaults | dict(sampling)
        return (
            self._is_known
            and set(asked) == set(KNOWN)
            and asked["mode"] in ("sampling", "greedy")
            and asked["listen_top_k"] is None
        )

    def draw(
        self,
        scores: Any,
        generated: Sequence[int],
        *,
        begin: Callable[[Any], None] | None = None,
        **sampling: Any,
    ) -> int:
        """The next token of [1, vocabulary]. Raises RuntimeError for scores that are no numbers.

        `begin` is called with the token, [1], once it is known that no chunk ends and before it is
        known here which one it is; the device may still be drawing it.
        """
        asked = self._defaults | sampling
        mode, window = str(asked["mode"]), int(asked["text_repetition_window_size"])
        given = self._taken(scores)
        penalty = float(asked["text_repetition_penalty"])
        recent = self._recent_tokens(generated[-window:], window) if penalty != 1.0 else None
        first = self._run(("first", mode), lambda: _first(given, mode))
        self._of_first.send(first)
        # Most tokens are no chunk's end: the second draw is not kept waiting for the first one.
        between = self._random_place()
        key = ("second", window, recent is None, *(asked[name] for name in _OF_SECOND))
        second = self._run(key, lambda: self._second(given, recent, asked))
        self._of_second.send(second)
        if begin is not None:
            end, is_sound = self._of_first.read()
            if is_sound and end != self._chunk_end:
                begin(second[:1])
        token, is_second_sound = self._of_second.read()
        end, is_sound = self._of_first.read()
        if is_sound and end == self._chunk_end:
            self._go_back_to(between)
            return self._chunk_end
        if not (is_sound and is_second_sound):
            raise RuntimeError(NO_NUMBER)
        return int(token)

    def _random_place(self) -> Any:
        if self._generator is None:
            return torch.get_rng_state()
        return self._generator.get_offset()

    def _go_back_to(self, place: Any) -> None:
        """As if what was drawn since had not been."""
        if self._generator is None:
            torch.set_rng_state(place)
        else:
            self._generator.set_offset(place)

    def _taken(self, scores: Any) -> Any:
        """In the one place that is drawn from."""
        if self._given is None or self._given.dtype != scores.dtype:
            self._given = torch.empty_like(scores)
            self._repeated.clear()
        self._given.copy_(scores)
        return self._given

    def _recent_tokens(self, tokens: Sequence[int], window: int) -> Any:
        """[window], filled up with the first of them: writing a score twice is writing it once."""
        inside = [token for token in set(tokens) if token < self._vocabulary]
        if not inside:
            return None
        if self._recent is None or len(self._recent) != window:
            is_pinned = self._generator is not None
            self._told = torch.zeros(window, dtype=torch.long, pin_memory=is_pinned)
            self._recent = torch.zeros(window, dtype=torch.long, device=self._device)
            self._repeated.clear()
        # Not waited for: the device is still at the scores. Every draw ends with a wait.
        self._told[:] = torch.tensor(inside + inside[:1] * (window - len(inside)))
        self._recent.copy_(self._told, non_blocking=True)
        return self._recent

    def _second(self, scores: Any, recent: Any, asked: Mapping[str, Any]) -> Any:
        """Text only: a chunk's end was not drawn."""
        scores = scores.clone()
        scores.index_fill_(1, self._forbidden, float("-inf"))
        penalty = float(asked["text_repetition_penalty"])
        if recent is not None:
            held = scores[0, recent]
            scores[0, recent] = held / penalty if penalty > 1.0 else held * (1.0 / penalty)
        length = float(asked["length_penalty"])
        if length != 1.0:
            end = scores[0, self._turn_end]
            scores[0, self._turn_end] = torch.where(end > 0, end / length, end * length)
        if asked["listen_prob_scale"] != 1.0:
            scores[0, self._listen] *= asked["listen_prob_scale"]
        if asked["mode"] == "greedy":
            return _told(torch.argmax(scores[0], dim=-1, keepdim=True), None)
        scores = _likeliest(scores / asked["temperature"], asked["top_k"], asked["top_p"])
        return _drawn(torch.softmax(scores, dim=-1)[0])

    def _run(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        if key not in self._repeated:
            if len(self._repeated) >= GRAPHS_MAX:
                self._repeated.clear()
            self._repeated[key] = Repeated(make, pool=self._pool)
        return self._repeated[key]()


class Told:
    """Whole numbers on their way from the device. What it is given after them is not waited for."""

    def __init__(self, numbers: int, *, device: Any) -> None:
        is_cuda = device.type == "cuda"
        self._here = torch.zeros(numbers, dtype=torch.long, pin_memory=is_cuda)
        self._arrived = torch.cuda.Event() if is_cuda else None

    def send(self, made: Any) -> None:
        self._here.copy_(made, non_blocking=True)
        if self._arrived is not None:
            self._arrived.record()

    def read(self) -> list[int]:
        """Waits for them."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return [int(number) for number in self._here.tolist()]


_OF_SECOND = tuple(name for name in KNOWN if name != "text_repetition_window_size")

GRAPHS_MAX = 16
"""An installation asks for two or three."""


def _first(scores: Any, mode: str) -> Any:
    """Whatever comes first, a chunk's end included, from untouched scores."""
    if mode == "greedy":
        return _told(torch.argmax(scores[0], dim=-1, keepdim=True), None)
    return _drawn(torch.softmax(scores[0], dim=-1))


def _drawn(shares: Any) -> Any:
    """`torch.multinomial` of one, in its own steps: it asks the host in between."""
    noise = torch.empty_like(shares).exponential_(1)
    token = torch.argmax(shares / noise, dim=-1, keepdim=True)
    return _told(token, shares)


def _told(token: Any, shares: Any) -> Any:
    """The token and whether what it was drawn from are numbers."""
    if shares is None:
        return torch.cat((token, torch.ones_like(token)))
    is_sound = (shares.max() < float("inf")) & ~shares.isnan().any()
    return torch.cat((token, is_sound.to(token.dtype)[None]))


def _likeliest(scores: Any, top_k: int, top_p: float) -> Any:
    """The others at minus infinity: below the k-th, then beyond a share of p."""
    if top_k > 0:
        least = torch.topk(scores, min(top_k, scores.size(-1)))[0][..., -1, None]
        scores = scores.masked_fill(scores < least, float("-inf"))
    if top_p > 0.0:
        ordered, places = torch.sort(scores, descending=True)
        is_beyond = torch.cumsum(torch.softmax(ordered, dim=-1), dim=-1) > top_p
        is_beyond = torch.cat((torch.zeros_like(is_beyond[:, :1]), is_beyond[:, :-1]), dim=-1)
        beyond = torch.zeros_like(is_beyond).scatter(1, places, is_beyond)
        scores = scores.masked_fill(beyond, float("-inf"))
    return scores
