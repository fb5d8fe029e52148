"""Whether the process lives, and whether it can serve."""

from __future__ import annotations

from http import HTTPStatus

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api.access import is_open
from api.answers import answer
from api.documented import Answer, extra, problems
from api.errors import RETRY_AFTER_S, problem
from api.readiness import STALE
from api.service import service
from pipeline.ledger.queue import QueueState
from pipeline.ledger.workers import WorkerState

blueprint = APIBlueprint(
    "health", __name__, abp_tags=[Tag(name="health", description="For whoever looks after it.")]
)


class LiveAnswer(Answer):
    """The process answers."""

    status: str = Field("alive", examples=["alive"])


class ReadyAnswer(Answer):
    """The service can serve; what delays jobs is told."""

    status: str = Field("ready", examples=["ready"])
    workers_ready: int = Field(description="Workers that may claim a job; none only delays jobs.")
    workers_loading: int = Field(description="Workers that are loading their engine.")
    workers_quarantined: int = Field(description="Workers whose GPU a person must look at.")
    workers_stale: int = Field(description="Workers that have not shown that they live.")
    queue: QueueState = Field(description="Whether queued jobs are claimed.")
    broker: str = Field(
        description="`answers`, or `silent`: bells are lost, and the dispatcher rings later.",
        examples=["answers"],
    )


@blueprint.get("/healthz", responses={200: LiveAnswer}, openapi_extensions=extra(is_open=True))
@is_open
def live() -> Response:
    """Say that the process lives"""
    return answer(LiveAnswer(status="alive"))


@blueprint.get(
    "/readyz",
    responses={200: ReadyAnswer, **problems(503)},
    openapi_extensions=extra(is_open=True),
)
@is_open
def ready() -> Response:
    """Say whether the service can serve

    That is so while the database answers and has this release's tables, and the storage takes a
    write and has more room than the mark. Workers and the queue only delay. It answers within
    seconds, whatever hangs.
    """
    verdict = service().readiness.verdict()
    if verdict.faults or verdict.stored is None:
        code, detail = verdict.faults[0]
        return problem(
            code,
            HTTPStatus.SERVICE_UNAVAILABLE,
            detail,
            errors=[{"code": code, "detail": detail} for code, detail in verdict.faults],
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
    count = verdict.stored.workers
    return answer(
        ReadyAnswer(
            status="ready",
            workers_ready=count.get(WorkerState.READY.value, 0),
            workers_loading=count.get(WorkerState.LOADING.value, 0),
            workers_quarantined=count.get(WorkerState.QUARANTINED.value, 0),
            workers_stale=count.get(STALE, 0),
            queue=verdict.stored.queue,
            broker="answers" if verdict.is_broker_answering else "silent",
        )
    )
