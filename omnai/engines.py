"""The engines this release can run, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.engine.session import Engine


def _rehearsal() -> Engine:
    from pipeline.engine.rehearsal import RehearsalEngine

    return RehearsalEngine()


ENGINES: Mapping[str, Callable[[], Engine]] = {"rehearsal": _rehearsal}
"""Each loads what it needs when it is made."""
