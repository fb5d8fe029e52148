"""The API's process with points before and after its commits, for the tests' engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import worker.enqueue
from pipeline.engine.registry import TEST_ENGINE
from pipeline.ledger import recordings, submissions
from tests.faults import plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask

_ring = worker.enqueue.ring


def ring(*given: Any, **named: Any) -> bool:
    plan.reach("after_api_commit")
    return _ring(*given, **named)


worker.enqueue.ring = ring


def _around(name: str, call: Callable[..., Any]) -> Any:
    """With a point before anything is written, and one where all is and nothing committed."""

    def watched(*given: Any, then: Callable[..., object] | None = None, **named: Any) -> Any:
        def last(*told: Any) -> None:
            if then is not None:
                then(*told)
            plan.reach(f"in_{name}")

        plan.reach(f"before_{name}")
        return call(*given, then=last, **named)

    return watched


recordings.finish_upload = _around("upload", recordings.finish_upload)
submissions.submit = _around("submit", submissions.submit)


def __getattr__(name: str) -> Flask:
    """Imported late, so that whoever takes `ring` by its name takes the one above."""
    if name == "app":
        from api import make_app
        from pipeline.settings import Settings

        return make_app(Settings.from_environment(), engines=(TEST_ENGINE,))
    raise AttributeError(name)
