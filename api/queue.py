"""The queue: what runs, what waits and when it will run; pause, drain and resume it."""

from __future__ import annotations

from datetime import datetime

from flask import Response, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.answers import answer
from api.documented import Answer, problems
from api.forecasts import PaceAnswer, pace_answer
from api.service import service
from pipeline.ledger import forecast, queue
from pipeline.ledger.forecast import Line, Outlook, Unknown
from pipeline.ledger.queue import Queue, QueueState
from pipeline.records import JobState

ACTIONS = {
    QueueState.OPEN: "queue_resumed",
    QueueState.PAUSED: "queue_paused",
    QueueState.DRAINING: "queue_draining",
}
"""As the audit table calls them."""

SUBJECT = "queue"

blueprint = APIBlueprint(
    "queue",
    __name__,
    url_prefix="/v1/queue",
    abp_tags=[Tag(name="queue", description="What waits, and when it will run.")],
)


class QueueStateAnswer(Answer):
    """Whether queued jobs are begun, and what still runs."""

    state: QueueState = Field(
        description="`open`, or `paused` or `draining`: nothing is begun, what runs goes on."
    )
    changed_at: datetime | None
    running: int = Field(description="Epochs that hold a worker slot, of everybody.")


class NightAnswer(Answer):
    """The operator's window, in which jobs are begun."""

    window: str = Field(examples=["19:30-06:30"])
    zone: str
    weekends: bool = Field(description="Whether Saturdays and Sundays are open throughout.")
    hard_end: bool = Field(description="Whether the window's close ends what runs.")
    is_open: bool
    opens_at: datetime = Field(description="Now, or when it is open next.")
    closes_at: datetime = Field(description="When that stretch closes.")


class LineAnswer(Answer):
    """A job that runs or waits. Null is not known, never no time."""

    job_id: str
    owner: str
    title: str | None
    filename: str
    engine: str
    state: JobState
    position: int | None = Field(description="From 1, in its engine's queue; null once it runs.")
    expected_start_at: datetime | None = Field(description="When it began, where it runs.")
    expected_end_at: datetime | None
    is_cut: bool = Field(description="Whether the night's hard end comes before its own.")
    unknown: Unknown | None = Field(description="Why no end is expected, where none is.")
    not_before: datetime | None
    ready_by: datetime | None
    is_late: bool | None = Field(
        description="Whether its brief will not be there by `ready_by`; null where that is not"
        " known, and where none was asked."
    )
    job: str = Field(description="Where the job is.")


class QueueAnswer(Answer):
    """The queue now: the numbers are everybody's, the jobs those that the caller may see."""

    made_at: datetime
    queue: QueueStateAnswer
    night: NightAnswer | None = Field(description="Null where jobs are begun at any time.")
    queued: int = Field(description="Jobs that wait for a worker.")
    awaited: int = Field(description="Jobs whose recordings are still to come.")
    ready_workers: dict[str, int] = Field(
        description="Workers that are ready or at work, by engine."
    )
    paces: list[PaceAnswer] = Field(description="What the times rest on.")
    jobs: list[LineAnswer] = Field(
        description="First what runs, then the queues by position; at most 500 of each."
    )


@blueprint.get("", responses={200: QueueAnswer})
def show() -> Response:
    """Show the queue

    One's own jobs, and for an admin everybody's, with the times that are expected of them.
    """
    seen = look()
    return answer(
        QueueAnswer(
            made_at=seen.now,
            queue=_state(seen.queue),
            night=night_answer(seen.now),
            queued=seen.queued,
            awaited=seen.awaited,
            ready_workers=dict(seen.ready),
            paces=[pace_answer(engine, seen) for engine in sorted(seen.paces)],
            jobs=[_line(line) for line in visible_lines(seen)],
        )
    )


@blueprint.post("/pause", responses={200: QueueStateAnswer, **problems(403)})
def pause() -> Response:
    """Begin nothing more

    For admins. What runs goes on; what is queued stays queued.
    """
    return answer(_state(change(QueueState.PAUSED)))


@blueprint.post("/drain", responses={200: QueueStateAnswer, **problems(403)})
def drain() -> Response:
    """Begin nothing more, and wait until nothing runs

    For admins. The answer comes at once; the queue is drained once `running` is 0.
    """
    return answer(_state(change(QueueState.DRAINING)))


@blueprint.post("/resume", responses={200: QueueStateAnswer, **problems(403)})
def resume() -> Response:
    """Begin queued jobs again

    For admins.
    """
    return answer(_state(change(QueueState.OPEN)))


def look() -> Outlook:
    with service().database.transaction(is_snapshot=True) as session:
        return forecast.read(session, service().settings)


def visible_lines(seen: Outlook) -> list[Line]:
    """Of others nothing is told but how many they are."""
    owner = access.sight()
    return [line for line in seen.lines if owner is None or line.owner == owner]


def change(wanted: QueueState) -> Queue:
    """For admins: raises Refusal. Written down with who did it."""
    access.require_admin()
    with service().database.transaction() as session:
        queue.set_state(session, wanted)
        access.record(ACTIONS[wanted], SUBJECT, within=session)
        return queue.read(session)


def _state(found: Queue) -> QueueStateAnswer:
    return QueueStateAnswer(state=found.state, changed_at=found.changed_at, running=found.running)


def night_answer(now: datetime) -> NightAnswer | None:
    settings = service().settings
    window = settings.window
    if window is None:
        return None
    return NightAnswer(
        window=settings.night or "",
        zone=window.zone.key,
        weekends=window.has_weekends,
        hard_end=settings.night_hard_end,
        is_open=window.is_open(now),
        opens_at=window.opens_at(now),
        closes_at=window.closes_at(now),
    )


def _line(line: Line) -> LineAnswer:
    return LineAnswer(
        job_id=line.job_id,
        owner=line.owner,
        title=line.title,
        filename=line.filename,
        engine=line.engine,
        state=line.state,
        position=line.position,
        expected_start_at=line.starts_at,
        expected_end_at=line.ends_at,
        is_cut=line.is_cut,
        unknown=line.unknown,
        not_before=line.not_before,
        ready_by=line.ready_by,
        is_late=line.is_late,
        job=url_for("jobs.show", job_id=line.job_id),
    )
