"""A rehearsal that breaks where the objective says so, by a fault that quotes the prompt."""

from __future__ import annotations

from pipeline.engine.session import Session
from pipeline.records import SessionContext
from tests.worker.staged import StagedEngine

NAME = "tests.worker.telling:make"

BREAK = "break at once"


class TellingEngine(StagedEngine):
    def open(self, context: SessionContext) -> Session:
        if BREAK not in context.prompt:
            return super().open(context)
        try:
            raise KeyError(context.prompt)
        except KeyError as error:
            raise ValueError(f"bad prompt: {context.prompt}") from error


def make() -> TellingEngine:
    return TellingEngine()
