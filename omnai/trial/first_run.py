"""A short run over the native model, under observation from its context to its reset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from omnai.trial.course import run_course
from omnai.trial.facts import Seen
from pipeline.engine.minicpm.trial import Trial
from pipeline.engine.minicpm.witness import Books
from pipeline.engine.session import Session
from pipeline.errors import UnitRefused
from pipeline.prompt import system_text
from pipeline.records import Options, Reply, SessionContext, Unit

OBJECTIVE = "Say in one sentence what is shown or said, whenever it changes."
"""There is no portfolio to judge by; this is the one place that takes none."""

EPOCH = 1


def observe(trial: Trial, units: Iterator[Unit]) -> Seen:
    """One epoch over the units, from the engine's thread.

    Beside the units it tries what may cost nothing: the same context, a damaged unit and a
    repeated one. Raises EngineError where no session opens.
    """
    witness, engine = trial.witness, trial.engine
    context = SessionContext(
        epoch=EPOCH, prompt=system_text(OBJECTIVE, ()), holdings=(), options=Options()
    )
    with witness.watching():
        session = engine.open(context)
        looks = _Looks(trial, session)
        prepared, feeds = witness.books(), tuple(witness.feeds)
        is_same = engine.open(context) is session
        reopening = (is_same, len(witness.feeds) - len(feeds))
        course = run_course(session, looks.before(units), on_step=looks.after)
        return Seen(
            info=engine.describe(),
            decode=witness.loaded.decode,
            options=context.options,
            construction=trial.construction,
            forced_listening=getattr(witness.loaded.duplex, "force_listen_count", None),
            context_tokens=witness.context_tokens(context.prompt),
            context_feeds=feeds,
            prepared=prepared,
            reopening=reopening,
            damaged_unit=looks.damaged,
            repeated_unit=looks.repeated,
            after_units=tuple(looks.books),
            natives=tuple(witness.units),
            course=course,
            statistics_helper=witness.statistics_helper(),
            closed=witness.books(),
        )


class _Looks:
    """What is tried and read between two units."""

    def __init__(self, trial: Trial, session: Session) -> None:
        self._witness = trial.witness
        self._session = session
        self.damaged: tuple[bool, int] | None = None
        self.repeated: tuple[bool, int] | None = None
        self.books: list[Books] = []

    def before(self, units: Iterator[Unit]) -> Iterator[Unit]:
        """The same units; the first one is tried with a damaged sample before."""
        for number, unit in enumerate(units):
            if number == 0:
                self._try_damaged(unit)
            yield unit

    def after(self, unit: Unit, reply: Reply) -> None:
        if reply.sequence == 0:
            calls = self._witness.calls
            again = self._session.step(unit, epoch=EPOCH, sequence=0)
            self.repeated = (again == reply, self._witness.calls - calls)
        self.books.append(self._witness.books())

    def _try_damaged(self, unit: Unit) -> None:
        samples = np.frombuffer(unit.pcm, dtype="<f4").copy()
        samples[len(samples) // 2] = np.nan
        calls = self._witness.calls
        is_refused = False
        try:
            self._session.step(replace(unit, pcm=samples.tobytes()), epoch=EPOCH, sequence=0)
        except UnitRefused:
            is_refused = True
        self.damaged = (is_refused, self._witness.calls - calls)
