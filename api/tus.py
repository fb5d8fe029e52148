"""Uploads that go on after an interruption, by tus 1.0.0: begin one, add to it, ask, end it."""

from __future__ import annotations

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.http import http_date

from api import access, parts, tus_headers
from api.access import is_open
from api.answers import answer
from api.documented import Strict, extra, problems
from api.errors import Refusal
from api.service import service
from api.tus_headers import (
    CHECKSUM_HEADER,
    LENGTH_HEADER,
    METADATA_HEADER,
    METHOD_HEADER,
    OFFSET_HEADER,
    PART_TYPE,
    VERSION,
    VERSION_HEADER,
)
from api.upload_answers import UploadAnswer, upload_answer
from api.uploads import above_mark, check_space, open_body, read_chunks
from pipeline import intake
from pipeline.errors import MediaStopped, RecordingRefused, UploadTooLarge
from pipeline.ledger import recordings, uploads
from pipeline.ledger.database import Transaction
from pipeline.ledger.errors import UploadGone
from pipeline.ledger.recordings import Recording
from pipeline.ledger.uploads import Upload

EXTENSIONS = ("creation", "creation-with-upload", "checksum", "termination", "expiration")

RECORDING_HEADER = "Upload-Recording"
"""Id of the recording that the upload has become."""

PARTS_AT = "/<upload_id>"

blueprint = APIBlueprint(
    "uploads",
    __name__,
    url_prefix="/v1/uploads",
    abp_tags=[Tag(name="uploads", description="Recordings that are sent in parts, by tus 1.0.0.")],
)


class UploadPath(Strict):
    upload_id: str = Field(description="The upload's id.")


PART_BODY = {PART_TYPE: {"schema": {"type": "string", "format": "binary"}}}


@blueprint.post(
    "",
    responses={
        201: {"description": "Begun; `Location` is where its parts go."},
        **problems(400, 409, 412, 413, 415, 422, 460, 507),
    },
    openapi_extensions=extra(
        headers=(VERSION_HEADER, LENGTH_HEADER, METADATA_HEADER, CHECKSUM_HEADER)
    ),
    provide_automatic_options=False,
)
@access.checks_csrf
def create() -> Response:
    """Begin an upload in parts

    The first part may come along, as `application/offset+octet-stream`. `Upload-Metadata` may tell
    the `filename`.
    """
    tus_headers.check_version()
    _check_csrf()
    length_bytes = tus_headers.read_length(service().upload_bytes_max)
    metadata, told = tus_headers.read_metadata()
    checksum = tus_headers.read_checksum()
    named = next((told[name] for name in tus_headers.NAMES if name in told), None)

    def begin() -> Upload:
        begun = parts.begin(
            service(),
            owner=access.caller().owner,
            filename=intake.clean_filename(named),
            metadata=metadata,
            length_bytes=length_bytes,
        )
        access.record("upload_begun", begun.id)
        return begun

    check_space(length_bytes)
    if not tus_headers.has_body():
        upload = begin()
    else:
        tus_headers.check_part_type()
        _check_room(0, length_bytes)
        open_body()
        with service().admission.place():
            upload = _take_part(begin().id, 0, checksum)
    made = _answer(upload, 201)
    made.headers["Location"] = url_for("uploads.show", upload_id=upload.id)
    return made


@blueprint.get(
    PARTS_AT,
    responses={200: UploadAnswer, **problems(404, 410)},
    provide_automatic_options=False,
)
def show(path: UploadPath) -> Response:
    """Look at an upload in parts

    `HEAD` is how a tus client asks where to go on. A whole file whose last answer was cut off is
    looked into now.
    """
    if request.method == "HEAD":
        tus_headers.check_version()
    upload = _get(path.upload_id)
    if upload.is_open and upload.is_whole:
        upload = _finish_late(upload)
    is_ended = not upload.is_open and upload.recording_id is None
    if is_ended and (request.method == "HEAD" or upload.refusal is None):
        raise UploadGone
    made = answer(upload_answer(upload))
    made.headers.update(_headers(upload))
    if upload.metadata is not None:
        made.headers[METADATA_HEADER] = upload.metadata
    return made


@blueprint.patch(
    PARTS_AT,
    responses={
        204: {"description": "Taken; `Upload-Offset` is where the next part goes."},
        **problems(400, 404, 409, 410, 412, 413, 415, 422, 423, 460, 507),
    },
    openapi_extensions=extra(
        headers=(VERSION_HEADER, OFFSET_HEADER, CHECKSUM_HEADER), body=PART_BODY
    ),
    provide_automatic_options=False,
)
@access.checks_csrf
def add(path: UploadPath) -> Response:
    """Add a part to an upload

    With the last one the file is probed and kept, and `Upload-Recording` tells the recording.
    """
    return _add(path.upload_id)


@blueprint.delete(
    PARTS_AT,
    responses={
        204: {"description": "Ended; its bytes are removed."},
        **problems(404, 410, 412, 423),
    },
    openapi_extensions=extra(headers=(VERSION_HEADER,)),
    provide_automatic_options=False,
)
def end(path: UploadPath) -> Response:
    """End an upload in parts

    A recording that it has become stays.
    """
    return _end(path.upload_id)


@blueprint.post(PARTS_AT, doc_ui=False, provide_automatic_options=False)
@access.checks_csrf
def override(path: UploadPath) -> Response:
    """For what can send nothing but GET and POST."""
    wanted = request.headers.get(METHOD_HEADER)
    if wanted == "PATCH":
        return _add(path.upload_id)
    if wanted == "DELETE":
        return _end(path.upload_id)
    raise MethodNotAllowed(valid_methods=["DELETE", "GET", "HEAD", "OPTIONS", "PATCH"])


@is_open
def capabilities(upload_id: str = "") -> Response:
    """What this service can do of the protocol; anybody may ask, as of any upload."""
    return Response(
        status=204,
        headers={
            "Tus-Version": VERSION,
            "Tus-Extension": ",".join(EXTENSIONS),
            "Tus-Max-Size": str(service().upload_bytes_max),
            "Tus-Checksum-Algorithm": ",".join(parts.CHECKSUMS),
        },
    )


for _rule in ("", PARTS_AT):
    blueprint.add_url_rule(
        _rule, view_func=capabilities, methods=["OPTIONS"], provide_automatic_options=False
    )


@blueprint.after_request
def _tell_version(response: Response) -> Response:
    response.headers[VERSION_HEADER] = VERSION
    if response.status_code == 412:
        response.headers["Tus-Version"] = VERSION
    return response


def _add(upload_id: str) -> Response:
    tus_headers.check_version()
    _check_csrf()
    tus_headers.check_part_type()
    offset_bytes, checksum = tus_headers.read_offset(), tus_headers.read_checksum()
    upload = _get(upload_id)
    # What is wrong already need not wait for a place to be told so.
    _check_offset(upload, offset_bytes)
    _check_room(offset_bytes, upload.length_bytes)
    open_body()
    with service().admission.place():
        return _answer(_take_part(upload.id, offset_bytes, checksum), 204)


def _end(upload_id: str) -> Response:
    tus_headers.check_version()
    _check_csrf()
    upload = _get(upload_id)
    with parts.holding(service(), upload.id) as (held, _):
        if held.recording_id is not None:
            raise UploadGone("the upload has become a recording, which stays")
        service().blobs.discard(held.id)
        recordings.abandon_upload(service().database, held.id)
    access.record("upload_ended", upload.id)
    return Response(status=204)


def _take_part(upload_id: str, offset_bytes: int, checksum: parts.Checksum | None) -> Upload:
    """Write what this request brings and, where nothing is missing, make a recording of it."""
    with parts.holding(service(), upload_id) as (upload, file):
        _check_offset(upload, offset_bytes)
        if file is not None and not upload.is_whole:
            chunks = read_chunks(request.stream, announced=request.content_length)
            upload = parts.write(service(), upload, file, above_mark(chunks), checksum=checksum)
        if upload.is_open and upload.is_whole:
            _finish(upload)
            upload = uploads.get(service().database, upload_id, owner=None)
    return upload


def _finish(upload: Upload) -> None:
    def note(within: Transaction, recording: Recording) -> None:
        access.record("recording_uploaded", recording.id, within=within)

    parts.finish(service(), upload, then=note)


def _finish_late(upload: Upload) -> Upload:
    """For a file that came whole while the process that took it was killed."""
    try:
        with (
            service().admission.place(may_wait=False),
            parts.holding(service(), upload.id) as (held, _),
        ):
            if held.is_open and held.is_whole:
                _finish(held)
    except (Refusal, UploadGone, RecordingRefused, MediaStopped):
        pass  # somebody else is at it, or the row tells
    return _get(upload.id)


def _get(upload_id: str) -> Upload:
    upload = uploads.get(service().database, upload_id, owner=access.sight())
    return parts.stored(service(), upload)


def _check_csrf() -> None:
    """A part has no form that could tell the token."""
    if not access.is_csrf_checked():
        access.check_csrf(None)


def _check_offset(upload: Upload, offset_bytes: int) -> None:
    if not upload.is_open and upload.recording_id is None:
        raise UploadGone
    if upload.offset_bytes != offset_bytes:
        raise Refusal(
            "upload_offset_wrong",
            f"the next part goes to {upload.offset_bytes}, not to {offset_bytes}",
        )


def _check_room(offset_bytes: int, length_bytes: int) -> None:
    if offset_bytes + (request.content_length or 0) > length_bytes:
        raise UploadTooLarge(bytes_max=length_bytes)


def _answer(upload: Upload, status: int) -> Response:
    return Response(status=status, headers=_headers(upload))


def _headers(upload: Upload) -> dict[str, str]:
    told = {OFFSET_HEADER: str(upload.offset_bytes), LENGTH_HEADER: str(upload.length_bytes)}
    if upload.is_open:
        told["Upload-Expires"] = http_date(upload.expires_at)
    if upload.recording_id is not None:
        told[RECORDING_HEADER] = upload.recording_id
    return told
