"""Whether this process may take work: told once where the disk has no room, and once it has."""

from __future__ import annotations

import logging
from functools import cache

from pipeline.ledger.space import Space, space_of
from pipeline.settings import Settings

log = logging.getLogger(__name__)


def has_room(settings: Settings) -> bool:
    """Whether the data folder's disk has what has to stay free; logs each change, never a state."""
    return _room(space_of(settings)).is_there()


class _Room:
    def __init__(self, space: Space) -> None:
        self._space = space
        self._was_low = False

    def is_there(self) -> bool:
        is_low = self._space.is_low()
        if is_low and not self._was_low:
            log.warning(
                "The disk has too little room; nothing is begun until it has more.",
                extra={"action": "space_low", "free_bytes": self._space.free_bytes()},
            )
        elif self._was_low and not is_low:
            log.info("The disk has room again.", extra={"action": "space_back"})
        self._was_low = is_low
        return not is_low


@cache
def _room(space: Space) -> _Room:
    """One for a process, however many ask."""
    return _Room(space)
