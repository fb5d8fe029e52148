"""Jobs: ask for one, list them, watch one, cancel one."""

from __future__ import annotations

import hashlib
import re
import time

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access, idempotency, submissions
from api.answers import answer
from api.bodies import read_members
from api.documented import Answer, Strict, extra, problems
from api.errors import Refusal
from api.forecasts import SubmittedAnswer, submitted_answer
from api.job_answers import JobAnswer, JobsAnswer, job_answer
from api.limits import PAGE_MAX, WAIT_S_MAX
from api.service import service
from api.submission_schema import SUBMISSION_BODY
from pipeline.ledger import jobs, views
from pipeline.ledger.database import Transaction
from pipeline.ledger.jobs import ENDED
from pipeline.ledger.views import JobView
from pipeline.records import JobState

PREFER_HEADER = "Prefer"

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,9})\"?(?:$|[,;\s])", re.IGNORECASE)

blueprint = APIBlueprint(
    "jobs",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="jobs", description="What is asked for, and what came of it.")],
)


class JobPath(Strict):
    job_id: str = Field(description="The job's id.")


class JobsQuery(Strict):
    state: JobState | None = Field(None, description="Only jobs in this state.")
    after: str | None = Field(None, description="`next` of the page before.", max_length=500)
    limit: int = Field(50, ge=1, le=PAGE_MAX, description="Most jobs on the page.")


class CancelAnswer(Answer):
    """What a cancel did."""

    id: str
    state: JobState = Field(
        description="`canceled` at once where nothing had begun, else `canceling` until the unit "
        "in flight is done; `finalizing` where the end is being written and decides who won."
    )
    cancel_requested: bool = Field(description="Whether the job will end, or has ended, canceled.")


@blueprint.post(
    "",
    responses={202: SubmittedAnswer, **problems(400, 409, 413, 415, 422, 507)},
    openapi_extensions=extra(headers=(idempotency.HEADER,), body=SUBMISSION_BODY),
)
def submit() -> Response:
    """Ask for a job

    Everything is checked before anything is written; all that is wrong is answered at once.
    """
    members = read_members(submissions.FIELDS)
    return idempotency.once(
        "jobs",
        hashlib.sha256(request.get_data()).hexdigest(),
        lambda outcome: _submit(members, outcome),
    )


@blueprint.get("", responses={200: JobsAnswer, **problems(422)})
def listed(query: JobsQuery) -> Response:
    """List jobs

    Newest first; one's own, and for an admin everybody's.
    """
    page, following = views.page(
        service().database,
        owner=access.sight(),
        state=query.state,
        after=query.after,
        limit=query.limit,
    )
    return answer(JobsAnswer(jobs=[job_answer(view) for view in page], next=following))


@blueprint.get(
    "/<job_id>",
    responses={
        200: JobAnswer,
        304: {"description": "Nothing has changed since the version that was named."},
        **problems(404),
    },
    openapi_extensions=extra(headers=("If-None-Match", PREFER_HEADER)),
)
def show(path: JobPath) -> Response:
    """Watch a job

    With `Prefer: wait=30` the answer comes once the job changes, or after so many seconds.
    """
    wanted_s = _wait_s(request.headers.get(PREFER_HEADER))
    view = _view(path.job_id)
    has_waited = False
    if wanted_s:
        view, has_waited = _changed(view, time.monotonic() + wanted_s)
    made = answer(job_answer(view))
    made.set_etag(view.version)
    made.headers["Cache-Control"] = "private, no-cache"
    made.headers["Vary"] = f"Authorization, Cookie, {PREFER_HEADER}"
    if has_waited:
        made.headers["Preference-Applied"] = f"wait={wanted_s}"
    made.make_conditional(request)
    return made


@blueprint.post(
    "/<job_id>/cancel",
    responses={202: CancelAnswer, **problems(404, 409)},
)
def cancel(path: JobPath) -> Response:
    """Cancel a job

    What was completed is kept. A job that has ended is answered with 409.
    """
    view = _view(path.job_id)
    if view.state in ENDED:
        raise _ended(view.state)
    state = jobs.request_cancel(service().database, view.id)
    if state in (JobState.SUCCEEDED, JobState.FAILED):
        raise _ended(state)  # its end was written first
    if state is JobState.CANCELED and view.state not in _NOT_BEGUN:
        raise _ended(state)
    access.record("job_canceled", view.id, {"state": state.value})
    return answer(CancelAnswer(id=view.id, state=state, cancel_requested=True), 202)


_NOT_BEGUN = (JobState.WAITING_FOR_RECORDING, JobState.QUEUED)


def _ended(state: JobState) -> Refusal:
    return Refusal("job_ended", f"the job has ended and stays {state.value}")


def _submit(members: submissions.Members, outcome: idempotency.Outcome) -> None:
    def settle(within: Transaction, view: JobView) -> None:
        about = {"recording_id": view.recording_id}
        access.record("job_submitted", view.id, about, within=within)
        place = url_for("jobs.show", job_id=view.id)
        told = submitted_answer(within, view)
        outcome.settle(within, answer(told, 202, {"Location": place}))

    asked = submissions.check_members(service(), members, sight=access.sight())
    submissions.commit(service(), asked, owner=access.caller().owner, then=settle)


def _view(job_id: str) -> JobView:
    return views.get(service().database, job_id, owner=access.sight())


def _changed(view: JobView, deadline: float) -> tuple[JobView, bool]:
    """The job once it differs from what the caller knows, and whether there was a seat to wait in.

    Without a version the caller knows what was there when it asked.
    """
    known = request.if_none_match
    if view.state in ENDED or (known and not known.contains(view.version)):
        return view, False
    seen = view.version
    with service().watcher.seat(view.id) as seat:
        if seat is None:
            return view, False
        while True:
            # Looked at after the seat is taken, so that no change falls between.
            view = _view(view.id)
            if view.version != seen or time.monotonic() >= deadline or service().watcher.is_closed:
                return view, True
            seat.wait(deadline)


def _wait_s(prefer: str | None) -> int:
    found = _WAIT.search(prefer or "")
    return min(int(found.group(1)), WAIT_S_MAX) if found else 0
