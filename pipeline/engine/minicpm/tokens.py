"""The tokens that the native interface is steered by, resolved before anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pipeline.errors import EngineError


class TokenizerRefused(EngineError):
    """The tokenizer is not the model's; nothing was fed."""

    code = "tokenizer_refused"


def resolve(
    names: Sequence[str], token_id: Callable[[str], int | None], *, unknown_id: int | None = None
) -> Mapping[str, int]:
    """Each token's number; `unknown_id` is what `token_id` answers for one that is not there.

    Raises TokenizerRefused naming every token that is missing or shares its number.
    """
    found = {name: token_id(name) for name in names}
    numbers = list(found.values())
    wrong = [
        name
        for name, number in found.items()
        if number is None or number == unknown_id or numbers.count(number) > 1
    ]
    if wrong:
        raise TokenizerRefused(
            f"the tokenizer has no token of its own for {', '.join(wrong)};"
            " the locked revision's tokenizer is accepted"
        )
    return {name: number for name, number in found.items() if number is not None}
