"""Epochs: list a job's, and for admins ask for another."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from datetime import datetime
from typing import Any

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access, idempotency, submissions
from api.answers import answer
from api.bodies import read_members
from api.documented import Answer, extra, problems
from api.jobs import JobPath
from api.service import service
from api.submission_schema import BETWEEN_BLANKS
from pipeline.errors import InputRefused, Problem
from pipeline.ledger import reruns, views
from pipeline.ledger.database import Transaction
from pipeline.ledger.reruns import Rerun, RerunStart
from pipeline.plain import to_plain
from pipeline.records import EpochRecord, JobState

REASON_CHARS_MAX = 500
START_S_MAX = 2**31 - 1
FIELDS = ("from", "reason")

RERUN_BODY: dict[str, Any] = {
    "application/json": {
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "required": ["from", "reason"],
            "properties": {
                "from": {
                    "description": "`start`, `last_completed` or a source second.",
                    "oneOf": [
                        {"type": "string", "enum": [start.value for start in RerunStart]},
                        {"type": "integer", "minimum": 0, "maximum": START_S_MAX},
                    ],
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "description": f"At most {REASON_CHARS_MAX} characters, {BETWEEN_BLANKS}.",
                },
            },
        },
        "example": {"from": "last_completed", "reason": "The worker was restarted."},
    }
}

blueprint = APIBlueprint(
    "epochs",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="epochs", description="The sessions over a job's recording.")],
)


class EpochAnswer(Answer):
    """One session over the recording."""

    number: int
    start_s: int
    engine: str
    engine_revision: str
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    end_detail: str | None
    source_end_ms: int | None = Field(description="Where the source was found to end.")
    gaps: list[dict[str, int]]


class RerunAnswer(Answer):
    """One request to run the job again."""

    epoch: int
    start_s: int
    reason: str
    requested_by: str
    requested_at: datetime


class EpochsAnswer(Answer):
    """A job's epochs in order, and who asked for those after the first."""

    state: JobState
    epochs: list[EpochAnswer]
    reruns: list[RerunAnswer]


class ReservedAnswer(Answer):
    """The number that the next epoch will have."""

    job_id: str
    epoch: int
    state: JobState


@blueprint.get("/<job_id>/epochs", responses={200: EpochsAnswer, **problems(404)})
def listed(path: JobPath) -> Response:
    """List epochs"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    return answer(
        EpochsAnswer(
            state=view.state,
            epochs=[_epoch(epoch) for epoch in views.epochs(service().database, view.id)],
            reruns=[_rerun(rerun) for rerun in reruns.listed(service().database, view.id)],
        )
    )


@blueprint.post(
    "/<job_id>/epochs",
    responses={202: ReservedAnswer, **problems(400, 403, 404, 409, 413, 415, 422)},
    openapi_extensions=extra(headers=(idempotency.HEADER,), body=RERUN_BODY),
)
def ask(path: JobPath) -> Response:
    """Run a job again

    For admins, and for a job that has ended. What earlier epochs found stays.
    """
    access.require_admin()
    view = views.get(service().database, path.job_id, owner=access.sight())
    start, reason = _read()
    told = hashlib.sha256(request.get_data()).hexdigest()
    return idempotency.once(
        f"epochs/{view.id}", told, lambda outcome: _ask(view.id, start, reason, outcome)
    )


def _ask(job_id: str, start: RerunStart | int, reason: str, outcome: idempotency.Outcome) -> None:
    def settle(within: Transaction, number: int) -> None:
        made = ReservedAnswer(job_id=job_id, epoch=number, state=JobState.QUEUED)
        place = url_for("epochs.listed", job_id=job_id)
        outcome.settle(within, answer(made, 202, {"Location": place}))

    rerun(job_id, start=start, reason=reason, then=settle)


def rerun(
    job_id: str,
    *,
    start: RerunStart | int,
    reason: str,
    then: Callable[[Transaction, int], None] | None = None,
) -> int:
    """Reserve and write down as one, then ring; for the page too.

    Raises what `reruns.request` raises.
    """

    def record(within: Transaction, number: int) -> None:
        access.record("job_rerun", job_id, {"epoch": number}, within=within)
        if then is not None:
            then(within, number)

    key = access.require_admin()
    number = reruns.request(
        service().database, job_id, start=start, reason=reason, by=key.owner, then=record
    )
    submissions.ring_for(service(), job_id)
    return number


def _read() -> tuple[RerunStart | int, str]:
    members = read_members(FIELDS)
    problems_found: list[Problem] = []
    start = _start(members["from"].value if "from" in members else None, problems_found)
    reason = checked_reason(
        members["reason"].value if "reason" in members else None, problems_found
    )
    if problems_found:
        raise InputRefused(*problems_found)
    return start, reason


def _start(value: object, found: list[Problem]) -> RerunStart | int:
    names = [start.value for start in RerunStart]
    if isinstance(value, str) and value in names:
        return RerunStart(value)
    if type(value) is int and 0 <= value <= START_S_MAX:
        return value
    message = f"give {' or '.join(names)}, or a whole source second from 0 to {START_S_MAX}"
    found.append(Problem(code="from_invalid", where="/from", message=message))
    return 0


def checked_reason(value: object, found: list[Problem]) -> str:
    text = value.strip() if isinstance(value, str) else ""
    is_plain = all(unicodedata.category(c) not in ("Cc", "Cs") or c in "\n\t" for c in text)
    if not text or len(text) > REASON_CHARS_MAX or not is_plain:
        message = f"say in 1 to {REASON_CHARS_MAX} characters of plain text why"
        found.append(Problem(code="reason_invalid", where="/reason", message=message))
    return text


def _epoch(epoch: EpochRecord) -> EpochAnswer:
    return EpochAnswer(
        number=epoch.number,
        start_s=epoch.start_s,
        engine=epoch.engine.name,
        engine_revision=epoch.engine.revision,
        started_at=epoch.started_at,
        ended_at=epoch.ended_at,
        end_reason=epoch.end_reason,
        end_detail=epoch.end_detail,
        source_end_ms=None if epoch.media_end is None else epoch.media_end.source_end_ms,
        gaps=[to_plain(gap) for gap in epoch.gaps],
    )


def _rerun(rerun: Rerun) -> RerunAnswer:
    return RerunAnswer(
        epoch=rerun.epoch,
        start_s=rerun.start_s,
        reason=rerun.reason,
        requested_by=rerun.requested_by,
        requested_at=rerun.requested_at,
    )
