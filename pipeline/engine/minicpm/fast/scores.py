"""Stands in for scores and states that are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Scores:
    """The scores after one token, [1, vocabulary]. As good as the tensor wherever it is read."""

    def __init__(self, compute: Callable[[Scores], Any]) -> None:
        self._compute = compute
        self.made: Any = None
        """The tensor, once there is one."""

    @property
    def tensor(self) -> Any:
        if self.made is None:
            self.made = self._compute(self)
        return self.made

    def __getitem__(self, key: Any) -> Any:
        return self.tensor[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tensor, name)

    @classmethod
    def __torch_function__(
        cls,
        function: Any,
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        named = {name: _tensor(value) for name, value in (named or {}).items()}
        return function(*map(_tensor, arguments), **named)


class States:
    """What speech would be made of: only its shape is asked for where none is made."""

    def __init__(self, tokens: int, hidden: int) -> None:
        self.shape = (1, tokens, hidden)


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, Scores) else value
