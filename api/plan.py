"""The pages of the plan for nights: the queue, with the operator's hand on it, and the morning."""

from __future__ import annotations

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from api import access
from api import night as night_routes
from api import queue as queue_routes
from api.queue import change, look, visible_lines
from pipeline.errors import InputRefused, Problem
from pipeline.ledger.keys import Role
from pipeline.ledger.nights import NightReport, Outcome
from pipeline.ledger.queue import QueueState

plan = Blueprint("plan", __name__)


@plan.get("/queue")
def queue() -> Response:
    seen = look()
    page = render_template(
        "queue.html",
        here="queue",
        seen=seen,
        lines=visible_lines(seen),
        night=queue_routes.night_answer(seen.now),
        may_change=access.caller().role is Role.ADMIN,
        shows_owner=access.sight() is None,
    )
    return make_response(page)


@plan.get("/night")
def night() -> Response:
    """For another night than the last: `since` and `until`, as the API takes them."""
    report: NightReport | None = None
    problems: tuple[Problem, ...] = ()
    try:
        report = night_routes.read(request.args.get("since"), request.args.get("until"))
    except InputRefused as refused:
        problems = refused.problems
    page = render_template(
        "night.html",
        here="night",
        report=report,
        problems=problems,
        jobs=[(job, night_routes.reason(job)) for job in report.jobs] if report else [],
        outcomes=list(Outcome),
        shows_owner=access.sight() is None,
    )
    return make_response(page, 422 if problems else 200)


@plan.post("/queue")
def set_queue() -> BaseResponse:
    """Another word than the three changes nothing."""
    wanted = request.form.get("state")
    if wanted in set(QueueState):
        change(QueueState(wanted))
    return redirect(url_for("pages.plan.queue"), 303)
