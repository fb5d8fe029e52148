"""How long jobs and recordings stay: kept until, under legal hold, deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag

from api import access
from api.answers import answer
from api.bodies import read_members
from api.documented import extra, problems
from api.job_answers import JobAnswer, job_answer
from api.jobs import JobPath
from api.jobs import blueprint as jobs_blueprint
from api.recordings import RecordingAnswer, RecordingPath, recording_answer
from api.recordings import blueprint as recordings_blueprint
from api.service import service
from pipeline.errors import InputRefused, Problem
from pipeline.ledger import deletion, keeping, recordings, views
from pipeline.ledger.audit import Fact
from pipeline.ledger.database import Transaction
from pipeline.schedule import read_time

FIELD = "keep_until"

KEEP_BODY: dict[str, Any] = {
    "application/json": {
        "schema": {
            "type": "object",
            "additionalProperties": False,
            "required": [FIELD],
            "properties": {
                FIELD: {
                    "type": ["string", "null"],
                    "format": "date-time",
                    "description": "A time to come, by RFC 3339, after which it may be deleted; "
                    "null for as long as the installation keeps such.",
                }
            },
        },
        "example": {FIELD: "2027-01-31T18:00:00Z"},
    }
}

# For addresses of its own. Methods of others' addresses are added to their blueprints, because the
# document takes the paths of one blueprint in place of another's.
blueprint = APIBlueprint(
    "retention",
    __name__,
    url_prefix="/v1",
    abp_tags=[Tag(name="retention", description="What nobody may delete.")],
)


@jobs_blueprint.patch(
    "/<job_id>",
    responses={200: JobAnswer, **problems(400, 404, 413, 415, 422)},
    openapi_extensions=extra(body=KEEP_BODY),
)
def keep_job(path: JobPath) -> Response:
    """Say until when a job is kept"""
    until = _read_until()
    keeping.keep_job(
        service().database,
        path.job_id,
        owner=access.sight(),
        until=until,
        then=_recorded("job_kept", path.job_id, {FIELD: _told(until)}),
    )
    return _job(path.job_id)


@jobs_blueprint.delete(
    "/<job_id>", responses={204: {"description": "Deleted."}, **problems(404, 409)}
)
def delete_job(path: JobPath) -> Response:
    """Delete an ended job

    With all that it found, at once. What of it lies in storage goes within a day or so.
    """
    deletion.delete_job(
        service().database,
        path.job_id,
        owner=access.sight(),
        then=_recorded("job_deleted", path.job_id),
    )
    return Response(status=204)


@blueprint.post("/jobs/<job_id>/hold", responses={200: JobAnswer, **problems(403, 404)})
def hold_job(path: JobPath) -> Response:
    """Put a job under legal hold

    For admins. Nobody can delete it then, nor its recording; neither goes with time.
    """
    return _hold_job(path.job_id, is_held=True)


@blueprint.delete("/jobs/<job_id>/hold", responses={200: JobAnswer, **problems(403, 404)})
def release_job(path: JobPath) -> Response:
    """End a job's legal hold

    For admins.
    """
    return _hold_job(path.job_id, is_held=False)


@recordings_blueprint.patch(
    "/<recording_id>",
    responses={200: RecordingAnswer, **problems(400, 404, 413, 415, 422)},
    openapi_extensions=extra(body=KEEP_BODY),
)
def keep_recording(path: RecordingPath) -> Response:
    """Say until when a recording is kept

    It stays as long as a job about it does.
    """
    until = _read_until()
    keeping.keep_recording(
        service().database,
        path.recording_id,
        owner=access.sight(),
        until=until,
        then=_recorded("recording_kept", path.recording_id, {FIELD: _told(until)}),
    )
    return _recording(path.recording_id)


@recordings_blueprint.delete(
    "/<recording_id>",
    responses={204: {"description": "Deleted."}, **problems(404, 409)},
)
def delete_recording(path: RecordingPath) -> Response:
    """Delete a recording and its jobs

    Nothing is deleted where a job of it has not ended, is held, or is another owner's.
    """
    deletion.delete_recording(
        service().database,
        path.recording_id,
        owner=access.sight(),
        then=_recorded("recording_deleted", path.recording_id),
    )
    return Response(status=204)


@blueprint.post(
    "/recordings/<recording_id>/hold", responses={200: RecordingAnswer, **problems(403, 404)}
)
def hold_recording(path: RecordingPath) -> Response:
    """Put a recording under legal hold

    For admins. Neither it nor a job about it can be deleted then.
    """
    return _hold_recording(path.recording_id, is_held=True)


@blueprint.delete(
    "/recordings/<recording_id>/hold", responses={200: RecordingAnswer, **problems(403, 404)}
)
def release_recording(path: RecordingPath) -> Response:
    """End a recording's legal hold

    For admins.
    """
    return _hold_recording(path.recording_id, is_held=False)


def _hold_job(job_id: str, *, is_held: bool) -> Response:
    access.require_admin()
    action = "job_held" if is_held else "job_released"
    keeping.hold_job(service().database, job_id, is_held=is_held, then=_recorded(action, job_id))
    return _job(job_id)


def _hold_recording(recording_id: str, *, is_held: bool) -> Response:
    access.require_admin()
    action = "recording_held" if is_held else "recording_released"
    keeping.hold_recording(
        service().database, recording_id, is_held=is_held, then=_recorded(action, recording_id)
    )
    return _recording(recording_id)


def _job(job_id: str) -> Response:
    return answer(job_answer(views.get(service().database, job_id, owner=access.sight())))


def _recording(recording_id: str) -> Response:
    found = recordings.get(service().database, recording_id, owner=access.sight())
    return answer(recording_answer(found))


def _recorded(
    action: str, subject: str, detail: dict[str, Fact] | None = None
) -> Callable[[Transaction], None]:
    def write(within: Transaction) -> None:
        access.record(action, subject, detail, within=within)

    return write


def _read_until() -> datetime | None:
    """Raises InputRefused for what is no time, and for one that has passed."""
    members = read_members((FIELD,))
    if FIELD not in members:
        raise _refused("field_missing", "it is needed and was not given")
    value = members[FIELD].value
    if value is None:
        return None
    wrong: list[Problem] = []
    until = read_time(value, f"/{FIELD}", wrong)
    if until is None:
        raise InputRefused(*wrong)
    if until <= datetime.now(timezone.utc):
        raise _refused("time_passed", "give a time to come, or null; or delete it now")
    return until


def _refused(code: str, message: str) -> InputRefused:
    return InputRefused(Problem(code=code, where=f"/{FIELD}", message=message))


def _told(until: datetime | None) -> str | None:
    return None if until is None else until.isoformat()
