"""The morning's report: what is done, in part, failed or late, and why."""

from __future__ import annotations

from datetime import datetime, timedelta

from flask import Response, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.answers import answer
from api.documented import Answer, Strict, problems
from api.service import service
from pipeline.brief import sentences
from pipeline.errors import InputRefused, Problem
from pipeline.ledger import clock, nights
from pipeline.ledger.nights import NightJob, NightReport, Outcome
from pipeline.records import JobState
from pipeline.schedule import read_time

WITHOUT_WINDOW = timedelta(hours=24)
"""The last night where no window says when it began."""

TIME_CHARS_MAX = 40

blueprint = APIBlueprint(
    "night",
    __name__,
    url_prefix="/v1/night",
    abp_tags=[Tag(name="night", description="What came of a night.")],
)


class NightQuery(Strict):
    since: str | None = Field(
        None,
        description="A time with its offset (RFC 3339). Where none is given: when the operator's"
        " window opened last, or 24 hours before the end.",
        max_length=TIME_CHARS_MAX,
        json_schema_extra={"format": "date-time"},
    )
    until: str | None = Field(
        None,
        description="Likewise; now where none is given.",
        max_length=TIME_CHARS_MAX,
        json_schema_extra={"format": "date-time"},
    )


class NightJobAnswer(Answer):
    """A job of the night, as it stands now."""

    job_id: str
    owner: str
    title: str | None
    filename: str
    engine: str
    outcome: Outcome = Field(
        description="`partial` failed after something was completed, which its brief has."
    )
    is_late: bool = Field(
        description="Whether it ended after `ready_by`, or that is over and it has not ended."
    )
    state: JobState
    end_reason: str | None
    reason: str | None = Field(description="The same in words; null where it has not ended.")
    end_detail: str | None
    created_at: datetime
    ended_at: datetime | None
    ready_by: datetime | None
    watched_s: int = Field(description="Source seconds completed in this night.")
    worked_s: float = Field(description="Seconds that it held a worker in this night.")
    job: str = Field(description="Where the job is.")
    brief: str = Field(description="Where its brief is.")


class NightReportAnswer(Answer):
    """One's own jobs of a night, and for an admin everybody's; the worst first."""

    since: datetime
    until: datetime
    made_at: datetime
    counts: dict[Outcome, int]
    late: int = Field(description="Jobs that are late, whatever came of them.")
    jobs: list[NightJobAnswer] = Field(description="At most 500, the newest.")
    left_out: int = Field(description="Further jobs, in none of these numbers.")


@blueprint.get("", responses={200: NightReportAnswer, **problems(422)})
def show(query: NightQuery) -> Response:
    """Report a night

    What ended in it, and what was asked for before its end and has not ended yet.
    """
    report = read(query.since, query.until)
    return answer(
        NightReportAnswer(
            since=report.since,
            until=report.until,
            made_at=report.now,
            counts={outcome: report.count(outcome) for outcome in Outcome},
            late=report.late,
            jobs=[_job(job) for job in report.jobs],
            left_out=report.left_out,
        )
    )


def read(since: str | None, until: str | None) -> NightReport:
    """Raises InputRefused for what is no time, and for a night that ends before it begins."""
    wrong: list[Problem] = []
    now = clock.now(service().database)
    end = now if until is None else read_time(until, "until", wrong)
    begin = None if since is None else read_time(since, "since", wrong)
    if wrong:
        raise InputRefused(*wrong)
    assert end is not None
    if begin is None:
        begin = _began(end)
    if begin >= end:
        message = "it is not before “until”; give an earlier time"
        raise InputRefused(Problem(code="since_too_late", where="since", message=message))
    with service().database.transaction(is_snapshot=True) as session:
        return nights.read(session, since=begin, until=end, owner=access.sight())


def reason(job: NightJob) -> str | None:
    """Why it ended, in words."""
    return None if job.ended_at is None else sentences.end_reason(job.end_reason)


def _began(end: datetime) -> datetime:
    """When the night began that `end` is in or after."""
    window = service().settings.window
    try:
        return end - WITHOUT_WINDOW if window is None else window.newest(end).opens_at
    except OverflowError as error:
        message = "the calendar has nothing before it; give a later time"
        raise InputRefused(
            Problem(code="time_malformed", where="until", message=message)
        ) from error


def _job(job: NightJob) -> NightJobAnswer:
    return NightJobAnswer(
        job_id=job.job_id,
        owner=job.owner,
        title=job.title,
        filename=job.filename,
        engine=job.engine,
        outcome=job.outcome,
        is_late=job.is_late,
        state=job.state,
        end_reason=job.end_reason,
        reason=reason(job),
        end_detail=job.end_detail,
        created_at=job.created_at,
        ended_at=job.ended_at,
        ready_by=job.ready_by,
        watched_s=job.watched_s,
        worked_s=round(job.worked_s, 1),
        job=url_for("jobs.show", job_id=job.job_id),
        brief=url_for("briefs.fetch", job_id=job.job_id),
    )
