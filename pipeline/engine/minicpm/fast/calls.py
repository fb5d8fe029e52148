"""What units ask of a decoder, kept so that another one can be asked the very same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

BOOKS = ("register_system_prompt", "register_unit_start", "register_unit_end", "enforce_window")


@dataclass(kw_only=True)
class Fed:
    """Tokens that went in."""

    embeds: Any
    """[tokens, hidden]"""
    is_read: bool = False
    """Whether a token was drawn from the scores after them."""


@dataclass(frozen=True, kw_only=True)
class Noted:
    """A word about units or the window."""

    name: str
    named: Mapping[str, Any]


Call = Fed | Noted


@contextmanager
def recorded(decoder: Any) -> Iterator[list[Call]]:
    """Everything that is asked of the decoder inside the block, in its order."""
    calls: list[Call] = []
    returned: list[tuple[Any, Fed]] = []
    replaced = {name: vars(decoder).get(name) for name in ("feed", "decode", *BOOKS)}
    feed, decode = decoder.feed, decoder.decode

    def fed(embeds: Any, return_logits: bool = False) -> Any:
        call = Fed(embeds=embeds.detach().clone())
        calls.append(call)
        made = feed(embeds, return_logits=return_logits)
        if return_logits:
            returned[:] = [(made[0], call)]
        return made

    def drawn(*given: Any, **sampling: Any) -> Any:
        scores = sampling.get("logits", given[0] if given else None)
        for made, call in returned:
            call.is_read = call.is_read or made is scores
        return decode(*given, **sampling)

    def noted(name: str) -> Callable[..., Any]:
        note = getattr(decoder, name)

        def told(**named: Any) -> Any:
            calls.append(Noted(name=name, named=named))
            return note(**named)

        return told

    vars(decoder).update(feed=fed, decode=drawn, **{name: noted(name) for name in BOOKS})
    try:
        yield calls
    finally:
        for name, before in replaced.items():
            vars(decoder).pop(name)
            if before is not None:
                setattr(decoder, name, before)


def replayed(decoder: Any, calls: Sequence[Call], *, is_batched: bool = False) -> Any:
    """[reads, vocabulary]: the scores that were read, whatever the decoder would have drawn.

    `is_batched` joins the tokens up to each read, and up to the unit's end, in one feed.
    """
    dtype = next(decoder.m.parameters()).dtype
    held: list[Any] = []
    read: list[Any] = []

    def go(*, is_read: bool) -> None:
        if not held:
            return
        made = decoder.feed(torch.cat(held), return_logits=is_read)
        held.clear()
        if is_read:
            read.append(made[0][0].clone())

    decoder.reset()
    try:
        for call in calls:
            if isinstance(call, Fed):
                held.append(call.embeds.to(dtype))
                if call.is_read or not is_batched:
                    go(is_read=call.is_read)
            else:
                go(is_read=False)
                getattr(decoder, call.name)(**call.named)
    finally:
        decoder.reset()
    return torch.stack(read)
