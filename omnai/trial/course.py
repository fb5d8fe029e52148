"""One session over some units, each call timed from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omnai.trial.figures import Timing
from pipeline.engine.session import Session
from pipeline.errors import EngineError, MediaStopped
from pipeline.records import Reply, SessionEnd, Unit


@dataclass(frozen=True, kw_only=True)
class Step:
    """One unit and what became of it."""

    reply: Reply
    total_ms: float
    """From hand-over to the reply, by the monotonic clock."""
    source_ms: int
    """Source time that it covers; 0 for a unit of the drain."""

    @property
    def timing(self) -> Timing:
        """Nothing is written here."""
        return Timing(
            decision=self.reply.decision,
            is_drain=self.reply.drain is not None,
            source_ms=self.source_ms,
            tokens=self.reply.tokens,
            queue_wait_ms=self.reply.queue_wait_ms,
            engine=self.reply.clocks,
            ledger_ms=None,
            total_ms=self.total_ms,
        )


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a session did from its first unit to its end."""

    steps: tuple[Step, ...]
    end: SessionEnd
    fault: EngineError | MediaStopped | None
    """Why it broke off; None where it ended by itself."""


def run_course(
    session: Session,
    units: Iterable[Unit],
    *,
    on_step: Callable[[Unit, Reply], None] = lambda unit, reply: None,
) -> Course:
    """Feed, drain and close.

    `on_step` is called after each unit of the source, between two calls into the engine.
    """
    steps: list[Step] = []
    fault: EngineError | MediaStopped | None = None
    epoch = session.context.epoch
    try:
        for sequence, unit in enumerate(units):
            began = time.monotonic()
            reply = session.step(unit, epoch=epoch, sequence=sequence)
            total_ms = _since(began)
            source_ms = unit.end_ms - unit.start_ms
            steps.append(Step(reply=reply, total_ms=total_ms, source_ms=source_ms))
            on_step(unit, reply)
        began = time.monotonic()
        for reply in session.drain(epoch=epoch):
            steps.append(Step(reply=reply, total_ms=_since(began), source_ms=0))
            began = time.monotonic()
    except (EngineError, MediaStopped) as error:
        fault = error
    finally:
        end = session.close()
    return Course(steps=tuple(steps), end=end, fault=fault)


def _since(began: float) -> float:
    return (time.monotonic() - began) * 1000
