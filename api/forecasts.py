"""Whether a job will be ready in time, as far as this installation's own measures tell."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from api.documented import Answer
from api.job_answers import JobAnswer, job_answer
from api.service import service
from pipeline.ledger import forecast
from pipeline.ledger.database import Transaction
from pipeline.ledger.forecast import Outlook, Unknown
from pipeline.ledger.views import JobView
from pipeline.records import JobState


class PaceAnswer(Answer):
    """How fast an engine was here, over its newest units."""

    engine: str
    times_realtime: float | None = Field(
        description="Source seconds a second: of work, or of decoding where that is slower. Null"
        " where too little was run."
    )
    start_up_s: float | None = Field(
        description="Seconds from a claim to the first unit, as they usually were here: to open the"
        " engine, bring the recording to the worker and read it up to where it begins."
    )
    units: int = Field(description="Units that the speed was measured over.")
    epochs: int = Field(description="Epochs that these are from.")


class ForecastAnswer(Answer):
    """What is expected of a job, and what that rests on. Null is not known, never no time."""

    made_at: datetime = Field(description="Forecasts are made once; the queue has newer ones.")
    position: int | None = Field(description="From 1, in its engine's queue.")
    expected_start_at: datetime | None
    expected_end_at: datetime | None
    makes_it: bool | None = Field(description="Whether its brief will be there by `ready_by`.")
    unknown: Unknown | None = Field(description="Why no end is expected, where none is.")
    is_cut: bool = Field(description="Whether the night's hard end comes before its own.")
    pace: PaceAnswer
    ready_workers: int = Field(description="Workers of its engine that are ready or at work.")


class SubmittedAnswer(JobAnswer):
    """A job as it was accepted."""

    forecast: ForecastAnswer | None = Field(description="Null where no `ready_by` was given.")


def submitted_answer(within: Transaction, view: JobView) -> SubmittedAnswer:
    """Within the transaction that writes the job, so that the queue already holds it."""
    told = None if view.ready_by is None else _forecast(within, view)
    return SubmittedAnswer(**dict(job_answer(view)), forecast=told)


def pace_answer(engine: str, seen: Outlook) -> PaceAnswer:
    pace, starts = seen.paces.get(engine), seen.starts.get(engine)
    if pace is None:
        return PaceAnswer(engine=engine, times_realtime=None, start_up_s=None, units=0, epochs=0)
    speed = 1 / pace.work_s_per_source_s if pace.work_s_per_source_s > 0 else None
    return PaceAnswer(
        engine=engine,
        times_realtime=None if speed is None else round(speed, 2),
        start_up_s=None if starts is None else round(starts.usual_s, 1),
        units=pace.units,
        epochs=pace.epochs,
    )


def _forecast(within: Transaction, view: JobView) -> ForecastAnswer:
    seen = forecast.read(within, service().settings)
    line = seen.line(view.id)
    unknown = line.unknown if line else Unknown.AHEAD_UNKNOWN
    if view.state is JobState.WAITING_FOR_RECORDING:
        unknown = Unknown.RECORDING_AWAITED
    return ForecastAnswer(
        made_at=seen.now,
        position=line.position if line else None,
        expected_start_at=line.starts_at if line else None,
        expected_end_at=line.ends_at if line else None,
        makes_it=None if line is None or line.is_late is None else not line.is_late,
        unknown=unknown,
        is_cut=line.is_cut if line else False,
        pace=pace_answer(view.engine, seen),
        ready_workers=seen.ready.get(view.engine, 0),
    )
