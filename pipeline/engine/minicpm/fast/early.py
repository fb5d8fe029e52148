"""The pass over a token that was just drawn, begun before the host knows which one it is."""

from __future__ import annotations

from typing import Any

from pipeline.engine.minicpm.fast.steps import Pass, Steps

UNKNOWN = -1
"""No token's number."""


class Early:
    """One pass that counts for nothing until its token is fed, and leaves nothing where it is not.

    Begun inside speech only: a second that listens draws once and must not pay for a pass that
    nobody reads. At the draw after which no unit so far went on, such as the cap's, none is begun
    either, nor after a turn's end, nor again in a unit in which another token was fed than drawn.
    """

    def __init__(self, steps: Steps, *, turn_end: int | None) -> None:
        self._steps, self._turn_end = steps, turn_end
        self.is_on = True
        self.used = 0
        """Passes whose token was then fed."""
        self.forgotten = 0
        self._made: Pass | None = None
        self._at = 0
        """The place in the cache that it wrote."""
        self._token = UNKNOWN
        """The last one that was drawn."""
        self._is_speaking = False
        """The last pass was over one token: what a unit begins with is more."""
        self._is_trusted = True
        self._draws = 0
        """In this unit."""
        self._draws_most = 0
        """In any unit since the decoder was reset."""

    def clear(self) -> None:
        """As for a new epoch."""
        self._made, self._is_speaking, self._is_trusted = None, False, True
        self._token, self._draws, self._draws_most = UNKNOWN, 0, 0

    def passed(self, tokens: int) -> None:
        """A pass was made over so many tokens that were fed."""
        self._is_speaking = tokens == 1
        if not self._is_speaking:
            self._draws_most = max(self._draws_most, self._draws)
            self._draws, self._is_trusted = 0, True

    def draws(self) -> bool:
        """A token is going to be drawn; whether its pass may be begun at once."""
        self._draws += 1
        return (
            self.is_on
            and self._is_trusted
            and self._is_speaking
            and self._token != self._turn_end
            and self._draws < self._draws_most
            and self._steps.is_ready_for_one()
        )

    def begin(self, token: Any) -> None:
        """With a token, [1], that only the device knows."""
        self._at, self._token = self._steps.cache.length, UNKNOWN
        self._made = self._steps.run_drawn(token)

    def drawn(self, token: int) -> None:
        """Which one it was."""
        self._token = token

    def fed(self, embeds: Any) -> Pass | None:
        """What the pass gave, where these are its token's; it counts as fed. Else it is forgotten,
        where there is one."""
        if self._made is None:
            return None
        if not self._is_of_token(embeds):
            self.forget()
            return None
        made, self._made = self._made, None
        self._steps.cache.length += 1
        self.used += 1
        return made

    def forget(self) -> None:
        """As if it had never been begun."""
        if self._made is None:
            return
        self._made, self._is_trusted = None, False
        self._steps.blank(self._at)
        self.forgotten += 1

    def _is_of_token(self, embeds: Any) -> bool:
        """The very row of the embeddings."""
        rows = self._steps.network.embeddings
        if self._token == UNKNOWN or embeds.shape != rows[:1].shape or embeds.dtype != rows.dtype:
            return False
        place = rows.data_ptr() + self._token * rows.stride(0) * rows.element_size()
        return bool(embeds.data_ptr() == place and embeds.stride(1) == rows.stride(1))
