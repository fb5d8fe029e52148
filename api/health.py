"""Whether the process lives, and whether it can serve."""

from __future__ import annotations

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api.access import is_open
from api.answers import answer
from api.documented import Answer, extra, problems
from api.service import service
from pipeline.ledger import workers
from pipeline.ledger.workers import WorkerState

blueprint = APIBlueprint(
    "health", __name__, abp_tags=[Tag(name="health", description="For whoever looks after it.")]
)


class LiveAnswer(Answer):
    """The process answers."""

    status: str = Field("alive", examples=["alive"])


class ReadyAnswer(Answer):
    """The service can serve."""

    status: str = Field("ready", examples=["ready"])
    workers_ready: int = Field(description="Workers that may claim a job; none only delays jobs.")


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

    That is so while the database answers and has this release's tables; a lost queue only delays.
    """
    listed = workers.listed(service().database)
    count = sum(worker.state is WorkerState.READY for worker in listed)
    return answer(ReadyAnswer(status="ready", workers_ready=count))
