"""Which public response is being spoken, in our own books: the model decides when to speak."""

from __future__ import annotations


class Turns:
    """The responses of one epoch, numbered from 1."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._number = 0
        self._is_active = False
        self.is_open = False
        """Whether the model has begun to speak and not yet ended its turn."""

    @property
    def generation_id(self) -> str:
        return f"{self._epoch}-{self._number}"

    def begin_public_response(self) -> str:
        """Open a response where none is active, else continue it; return its generation id.

        Called between prefill and generation of every unit. Touches neither logits nor cache.
        """
        if not self._is_active:
            self._number += 1
            self._is_active = True
        return self.generation_id

    def take(self, *, is_open: bool, has_ended: bool) -> None:
        """Note how a unit left the turn."""
        self.is_open = is_open
        if has_ended:
            self._is_active = False
