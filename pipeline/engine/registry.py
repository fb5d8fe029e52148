"""The engines this release can run, by name."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.engine.session import Engine

TEST_ENGINE = "test"
TEST_ENGINE_VARIABLE = "OMNAI_TEST_ENGINE"
"""`module:factory` of an engine that only the test suite has; without it there is none."""


def _rehearsal() -> Engine:
    from pipeline.engine.rehearsal import RehearsalEngine

    return RehearsalEngine()


def _minicpmo() -> Engine:
    from pipeline.engine.minicpm.engine import make_engine
    from pipeline.settings import Settings

    return make_engine(Settings.from_environment())


def _test() -> Engine:
    module, _, factory = os.environ[TEST_ENGINE_VARIABLE].partition(":")
    engine: Engine = getattr(importlib.import_module(module), factory)()
    return engine


ENGINES: Mapping[str, Callable[[], Engine]] = {
    "rehearsal": _rehearsal,
    "minicpmo": _minicpmo,
    **({TEST_ENGINE: _test} if TEST_ENGINE_VARIABLE in os.environ else {}),
}
"""Each loads what it needs when it is made."""
