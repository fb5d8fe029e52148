"""The vision encoder, repeated from one graph for every shape of picture."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.engine.minicpm.fast.graphs import Pool, Repeated, mark, wait_for

SHAPES_MAX = 8
"""A recording has one or two; each keeps some ten megabytes."""

Shape = tuple[tuple[int, ...], ...]


@dataclass
class _Learned:
    """What the encoder was given besides the pixels; it depends on their shape alone."""

    places: Any = None
    mask: Any = None


class Seeing:
    """In the place of `model.get_vision_embedding`.

    A shape's first picture goes through the official method, and through the graph too: where the
    two answers are not the same in every bit, that shape stays with the official method.
    """

    def __init__(self, model: Any, *, is_graphed: bool) -> None:
        self._model = model
        self._official = model.get_vision_embedding
        self._pool = Pool(is_graphed=is_graphed)
        self._known: OrderedDict[Shape, tuple[list[Any], Repeated] | None] = OrderedDict()
        self._lock = threading.Lock()
        self._last: Any = None
        self._ready: tuple[Any, Any, Any] | None = None
        self.used = 0
        """Pictures that were seen before they were asked for."""
        self.refused = 0
        """Shapes whose graph answered otherwise."""

    def __call__(self, data: Mapping[str, Any]) -> Any:
        seen = self._from_ahead(data)
        if seen is not None:
            return [seen]
        shape = _shape(data)
        if shape is None:
            return self._official(data)
        if shape not in self._known:
            return self._first(shape, data)
        self._known.move_to_end(shape)
        known = self._known[shape]
        if known is None:
            return self._official(data)
        return [self._repeat(known, data)]

    def see_ahead(self, data: Mapping[str, Any]) -> None:
        """Begin with what is asked for next, on the current stream; from any one thread. A shape
        that was never seen waits until it is asked for."""
        shape = _shape(data)
        known = None if shape is None else self._known.get(shape)
        if known is not None:
            seen = self._repeat(known, data)
            self._ready = (data["pixel_values"][0], seen, mark())

    def _from_ahead(self, data: Mapping[str, Any]) -> Any:
        ready, pixels = self._ready, data.get("pixel_values")
        if ready is None or not pixels or not len(pixels[0]) or pixels[0][0] is not ready[0][0]:
            return None
        self._ready = None
        self.used += 1
        wait_for(ready[2], ready[1])
        return ready[1]

    def _repeat(self, known: tuple[list[Any], Repeated], data: Mapping[str, Any]) -> Any:
        """One at a time, on whichever stream: there is one place for the pixels of a shape."""
        pixels, repeated = known
        with self._lock:
            wait_for(self._last)
            for place, given in zip(pixels, data["pixel_values"][0], strict=True):
                place.copy_(given)
            seen = repeated().clone()
            self._last = mark()
        return seen

    def _first(self, shape: Shape, data: Mapping[str, Any]) -> Any:
        with _watched(self._model) as learned:
            answer = self._official(data)
        while len(self._known) >= SHAPES_MAX:
            self._known.popitem(last=False)
        with self._lock:
            wait_for(self._last)
            self._known[shape] = self._graph(shape, data, learned, answer)
        return answer

    def _graph(
        self, shape: Shape, data: Mapping[str, Any], learned: _Learned, answer: Any
    ) -> tuple[list[Any], Repeated] | None:
        pixels = [each.clone() for each in data["pixel_values"][0]]
        sizes = torch.tensor(shape[0], dtype=torch.int32).view(-1, 2)

        def see() -> Any:
            return _seen(self._model, pixels, sizes, learned)

        repeated = Repeated(see, pool=self._pool)
        if torch.equal(repeated(), answer[0]):
            return pixels, repeated
        self.refused += 1
        return None


def _shape(data: Mapping[str, Any]) -> Shape | None:
    """Patches of every part, then the pixels' shapes; None for what is no single batch."""
    pixels, sizes = data.get("pixel_values"), data.get("tgt_sizes")
    if not pixels or len(pixels) != 1 or not len(pixels[0]) or sizes is None or len(sizes) != 1:
        return None
    if not isinstance(sizes[0], torch.Tensor):
        return None
    return tuple(sizes[0].flatten().tolist()), *(tuple(each.shape) for each in pixels[0])


def _seen(model: Any, pixels: list[Any], sizes: Any, learned: _Learned) -> Any:
    """The official steps between pixels and tokens, without those that ask the host."""
    vision = model.vpm
    rows = torch.nn.utils.rnn.pad_sequence(
        [each.flatten(end_dim=1).permute(1, 0) for each in pixels], batch_first=True
    )
    parts, length, _ = rows.shape
    image = (
        rows.permute(0, 2, 1)
        .reshape(parts, 3, -1, length)
        .type(model.llm.model.embed_tokens.weight.dtype)
    )
    patches = vision.embeddings.patch_embedding(image).flatten(2).transpose(1, 2)
    states = patches + vision.embeddings.position_embedding(learned.places)
    states = vision.encoder(
        inputs_embeds=states,
        attention_mask=learned.mask,
        output_attentions=False,
        output_hidden_states=False,
        return_dict=True,
    )[0]
    return model.resampler(vision.post_layernorm(states), sizes)


@contextmanager
def _watched(model: Any) -> Iterator[_Learned]:
    learned = _Learned()

    def places(_: Any, given: tuple[Any, ...]) -> None:
        learned.places = given[0].clone()

    def mask(_: Any, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        found = named.get("attention_mask")
        learned.mask = None if found is None else found.clone()

    hooks = [
        model.vpm.embeddings.position_embedding.register_forward_pre_hook(places),
        model.vpm.encoder.register_forward_pre_hook(mask, with_kwargs=True),
    ]
    try:
        yield learned
    finally:
        for hook in hooks:
            hook.remove()
