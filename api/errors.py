"""Every refusal as an RFC 9457 problem, and the only table from stable codes to statuses."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from flask import Flask, Response, json, request
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from pipeline.errors import InputRefused, MediaStopped, OmnaiError, Problem, RecordingRefused

PROBLEM_TYPE = "application/problem+json"

CHECKSUM_MISMATCH = 460
"""What tus 1.0 answers where the bytes are not those that the checksum is of; no status of HTTP."""

RETRY_AFTER_S = 5

STATUSES: Mapping[str, int] = {
    "input_refused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "recording_refused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "decode_error": HTTPStatus.UNPROCESSABLE_ENTITY,
    "settings_refused": HTTPStatus.INTERNAL_SERVER_ERROR,
    "key_missing": HTTPStatus.UNAUTHORIZED,
    "key_refused": HTTPStatus.UNAUTHORIZED,
    "role_refused": HTTPStatus.FORBIDDEN,
    "csrf_refused": HTTPStatus.FORBIDDEN,
    "job_unknown": HTTPStatus.NOT_FOUND,
    "epoch_unknown": HTTPStatus.NOT_FOUND,
    "finding_unknown": HTTPStatus.NOT_FOUND,
    "recording_unknown": HTTPStatus.NOT_FOUND,
    "frame_missing": HTTPStatus.NOT_FOUND,
    "blob_missing": HTTPStatus.NOT_FOUND,
    "blob_damaged": HTTPStatus.INTERNAL_SERVER_ERROR,
    "blobs_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "job_ended": HTTPStatus.CONFLICT,
    "job_not_ended": HTTPStatus.CONFLICT,
    "at_source_end": HTTPStatus.CONFLICT,
    "rerun_refused": HTTPStatus.CONFLICT,
    "recording_not_stored": HTTPStatus.CONFLICT,
    "notes_full": HTTPStatus.CONFLICT,
    "brief_missing": HTTPStatus.CONFLICT,
    "start_refused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "edge_refused": HTTPStatus.CONFLICT,
    "idempotency_in_flight": HTTPStatus.CONFLICT,
    "idempotency_conflict": HTTPStatus.UNPROCESSABLE_ENTITY,
    "cursor_refused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "upload_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "upload_broken_off": HTTPStatus.BAD_REQUEST,
    "upload_unknown": HTTPStatus.NOT_FOUND,
    "upload_gone": HTTPStatus.GONE,
    "upload_busy": HTTPStatus.LOCKED,
    "upload_offset_wrong": HTTPStatus.CONFLICT,
    "tus_version_refused": HTTPStatus.PRECONDITION_FAILED,
    "checksum_algorithm_refused": HTTPStatus.BAD_REQUEST,
    "checksum_wrong": CHECKSUM_MISMATCH,
    "intake_busy": HTTPStatus.SERVICE_UNAVAILABLE,
    "json_malformed": HTTPStatus.BAD_REQUEST,
    "media_type_refused": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "format_refused": HTTPStatus.NOT_ACCEPTABLE,
    "database_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "schema_outdated": HTTPStatus.SERVICE_UNAVAILABLE,
    "storage_full": HTTPStatus.INSUFFICIENT_STORAGE,
    "storage_low": HTTPStatus.INSUFFICIENT_STORAGE,
    "held": HTTPStatus.CONFLICT,
    "recording_in_use": HTTPStatus.CONFLICT,
    "pages_not_set": HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""Whatever is not listed is a fault of OmnAI's own: 500."""

HTTP_CODES: Mapping[int, tuple[str, str]] = {
    400: ("request_malformed", "the request is not HTTP as this service reads it"),
    404: ("not_found", "there is nothing here; /openapi.json lists what there is"),
    405: (
        "method_refused",
        "this method is not accepted here; the Allow header lists those that are",
    ),
    413: ("request_too_large", "the request is larger than accepted"),
    414: ("request_too_large", "the address is longer than accepted"),
    415: ("media_type_refused", "this content type is not accepted here; give application/json"),
    416: ("range_refused", "no such range; Content-Range tells the length"),
}

log = logging.getLogger(__name__)


class Refusal(OmnaiError):
    """The request was refused."""

    retry_after_s = RETRY_AFTER_S
    """Where it may be accepted later."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def install(app: Flask) -> None:
    app.register_error_handler(OmnaiError, _of_ours)
    app.register_error_handler(HTTPException, _of_http)
    app.register_error_handler(Exception, _of_nobody)


def problem(
    code: str,
    status: int,
    detail: str,
    *,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    body: dict[str, object] = {
        "type": "about:blank",
        "title": title(status),
        "status": status,
        "code": code,
        "detail": detail,
    }
    if errors:
        body["errors"] = list(errors)
    answer = Response(json.dumps(body), status=status, content_type=PROBLEM_TYPE)
    answer.headers.update(headers or {})
    return answer


def title(status: int) -> str:
    return "Checksum Mismatch" if status == CHECKSUM_MISMATCH else HTTPStatus(status).phrase


def status_of(error: OmnaiError) -> int:
    code = error.code
    if isinstance(error, RecordingRefused | MediaStopped):
        code = "recording_refused"  # its own codes are an open set
    elif isinstance(error, InputRefused) and code not in STATUSES:
        code = "input_refused"
    return int(STATUSES.get(code, HTTPStatus.INTERNAL_SERVER_ERROR))


def from_validation(error: ValidationError, *, is_body: bool) -> InputRefused:
    """Pydantic's findings as problems; a wrong value is never repeated, it may be secret."""
    return InputRefused(*(_from_finding(dict(found), is_body) for found in error.errors()))


def validation_callback(error: ValidationError) -> Response:
    """For path, query and header models, which the framework checks before a view."""
    return _of_ours(from_validation(error, is_body=False))


def _from_finding(found: Mapping[str, object], is_body: bool) -> Problem:
    path = found["loc"]
    assert isinstance(path, tuple)
    names = [str(part) for part in path]
    where = "".join(f"/{_pointer(name)}" for name in names) if is_body else ".".join(names)
    kind = str(found["type"])
    message = str(found["msg"])
    if kind == "extra_forbidden":
        kind, message = "field_unknown", "no such field"
    elif kind == "missing":
        kind, message = "field_missing", "it is needed and was not given"
    elif kind == "value_error":
        message = message.removeprefix("Value error, ")
    return Problem(code=kind, where=where, message=message[:1].lower() + message[1:])


def _pointer(name: str) -> str:
    printable = "".join(c if c.isprintable() else "�" for c in name[:60])
    return printable.replace("~", "~0").replace("/", "~1")


def _of_ours(error: OmnaiError) -> Response:
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in STATUSES:
        return _of_nobody(error)
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="omnai"'
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        after_s = error.retry_after_s if isinstance(error, Refusal) else RETRY_AFTER_S
        headers["Retry-After"] = str(after_s)
    if not isinstance(error, InputRefused):
        return problem(error.code, status, error.message, headers=headers)
    errors = [_entry(found) for found in error.problems]
    detail = f"{len(errors)} things are wrong; each is listed" if len(errors) > 1 else error.message
    return problem(error.code, status, detail, errors=errors, headers=headers)


def _entry(found: Problem) -> dict[str, str]:
    # Pointers begin with a slash; what else names a place is a parameter of the request.
    is_pointer = not found.where or found.where.startswith("/")
    place = "pointer" if is_pointer else "parameter"
    return {"code": found.code, place: found.where, "detail": found.message}


def _of_http(error: HTTPException) -> Response:
    if error.response is not None and isinstance(error.response, Response):
        return error.response
    status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR.value
    code, detail = HTTP_CODES.get(status, ("request_refused", error.description or error.name))
    headers = {
        name: value
        for name, value in error.get_headers()
        if name.lower() not in ("content-type", "content-length")
    }
    return problem(code, status, detail, headers=headers)


def _of_nobody(error: Exception) -> Response:
    # The path's ids may be logged, the query and the body may not: they are what people wrote.
    log.error(
        "A request failed.",
        exc_info=error,
        extra={"action": "request", "method": request.method, "endpoint": request.endpoint},
    )
    return problem(
        "internal",
        HTTPStatus.INTERNAL_SERVER_ERROR.value,
        "a fault of OmnAI's own; its log has more",
    )
