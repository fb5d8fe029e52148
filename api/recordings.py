"""Recordings: upload one, look at one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field
from werkzeug.http import parse_options_header

from api import access, idempotency, uploads
from api.answers import answer
from api.documented import Answer, Strict, extra, problems
from api.errors import Refusal
from api.limits import PAGE_MAX
from api.multipart import FileForm
from api.service import service
from pipeline import intake
from pipeline.intake import Received
from pipeline.ledger import recordings
from pipeline.ledger.database import Transaction
from pipeline.ledger.recordings import Recording

FORM_FIELDS = frozenset({access.CSRF_FIELD})

blueprint = APIBlueprint(
    "recordings",
    __name__,
    url_prefix="/v1/recordings",
    abp_tags=[Tag(name="recordings", description="The media files that jobs are about.")],
)


class RecordingPath(Strict):
    recording_id: str = Field(description="The recording's id.")


class RecordingsQuery(Strict):
    held: bool | None = Field(
        None, description="Only those under legal hold, or only those that are not."
    )
    after: str | None = Field(None, description="`next` of the page before.", max_length=500)
    limit: int = Field(50, ge=1, le=PAGE_MAX, description="Most recordings on the page.")


class UploadQuery(Strict):
    filename: str | None = Field(
        None, description="The file's name, where no Content-Disposition gives it."
    )


class StreamAnswer(Answer):
    """One stream of the file, as the file declares it."""

    index: int
    kind: str
    codec: str | None
    is_chosen: bool
    is_usable: bool = Field(
        description="Whether a job may choose it as `audio_stream` or `video_stream`."
    )
    reason: str
    details: dict[str, str | int | None]


class ProbeAnswer(Answer):
    """What is known of the file before it is watched."""

    format: str
    origin_ms: int = Field(description="Where source time 0 lies on the container's own clock.")
    declared_duration_ms: int | None
    packet_end_ms: int | None = Field(description="End of the source by packet time stamps.")
    streams: list[StreamAnswer]


class RecordingAnswer(Answer):
    """A recording."""

    id: str = Field(examples=["4b0c5e1c-6f3e-4a55-9d0e-6d1b6f5d4f10"])
    owner: str = Field(description="Whoever submitted it.")
    filename: str = Field(examples=["q3-call.mp4"])
    sha256: str
    size_bytes: int
    created_at: datetime
    media: str = Field(description="Address of the file's bytes.")
    keep_until: datetime | None = Field(
        description="When it may be deleted; null for as long as the installation keeps recordings."
    )
    held_at: datetime | None = Field(description="Under legal hold since then.")
    probe: ProbeAnswer | None


class RecordingsAnswer(Answer):
    """A page of recordings, newest first."""

    recordings: list[RecordingAnswer]
    next: str | None = Field(description="Give it as `after` for the next page; null at the end.")


_BINARY = {"schema": {"type": "string", "format": "binary"}}
UPLOAD_BODY = {
    "application/octet-stream": _BINARY,
    "video/*": _BINARY,
    "audio/*": _BINARY,
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "required": ["file"],
            "properties": {
                "file": {"type": "string", "format": "binary"},
                access.CSRF_FIELD: {
                    "type": "string",
                    "description": "The session's token, for a request by cookie; before the file.",
                },
            },
            "additionalProperties": False,
        }
    },
}


@blueprint.post(
    "",
    responses={201: RecordingAnswer, **problems(400, 409, 413, 415, 422, 507)},
    openapi_extensions=extra(headers=(idempotency.HEADER, "Content-Disposition"), body=UPLOAD_BODY),
)
@access.checks_csrf
def upload(query: UploadQuery) -> Response:
    """Upload a recording

    The file as the body or as the field `file` of a form. It is written once, hashed and probed.
    The same bytes again give the same recording.
    """
    idempotency.given_key()  # refused before hours of upload, not after
    uploads.open_body()
    with service().admission.place():
        received = _received(query.filename)
        return idempotency.once(
            "recordings",
            _payload_sha256(received),
            lambda outcome: _keep(received, outcome),
            unneeded=lambda: intake.drop(service().database, service().blobs, received),
        )


@blueprint.get("", responses={200: RecordingsAnswer, **problems(422)})
def listed(query: RecordingsQuery) -> Response:
    """List recordings

    Newest first; one's own, and for an admin everybody's.
    """
    page, following = recordings.page(
        service().database,
        owner=access.sight(),
        is_held=query.held,
        after=query.after,
        limit=query.limit,
    )
    found = [recording_answer(recording) for recording in page]
    return answer(RecordingsAnswer(recordings=found, next=following))


@blueprint.get("/<recording_id>", responses={200: RecordingAnswer, **problems(404)})
def show(path: RecordingPath) -> Response:
    """Look at a recording"""
    recording = recordings.get(service().database, path.recording_id, owner=access.sight())
    return answer(recording_answer(recording))


def recording_answer(recording: Recording) -> RecordingAnswer:
    probe = recording.probe
    return RecordingAnswer(
        id=recording.id,
        owner=recording.owner,
        filename=recording.filename,
        sha256=recording.sha256,
        size_bytes=recording.size_bytes,
        created_at=recording.created_at,
        media=url_for("media.fetch", recording_id=recording.id),
        keep_until=recording.keep_until,
        held_at=recording.held_at,
        probe=None
        if probe is None
        else ProbeAnswer(
            format=probe.format,
            origin_ms=probe.origin_ms,
            declared_duration_ms=probe.declared_duration_ms,
            packet_end_ms=probe.packet_end_ms,
            streams=[
                StreamAnswer(
                    index=stream.index,
                    kind=stream.kind,
                    codec=stream.codec,
                    is_chosen=stream.is_chosen,
                    is_usable=stream.is_usable,
                    reason=stream.reason,
                    details=dict(stream.details),
                )
                for stream in probe.streams
            ],
        ),
    )


def receive_form() -> tuple[Received, FileForm]:
    """The file of this multipart request, whole under its temporary name, and its small fields.

    Fields that come before the file are checked before a byte of it is written.
    """
    boundary = request.mimetype_params.get("boundary")
    if not boundary:
        raise Refusal("upload_broken_off", "the form names no boundary; send it as a form again")
    form = FileForm(request.stream, boundary.encode("latin-1", "replace"), known=FORM_FIELDS)
    form.open()
    if not access.is_csrf_checked():
        access.check_csrf(form.fields.get(access.CSRF_FIELD))
    return _write(form.chunks(), form.filename), form


def _received(named: str | None) -> Received:
    if request.mimetype == "multipart/form-data":
        received, _ = receive_form()
        return received
    if not access.is_csrf_checked():
        access.check_csrf(None)
    if request.mimetype not in ("", "application/octet-stream") and not (
        request.mimetype.startswith(("video/", "audio/"))
    ):
        raise Refusal(
            "media_type_refused",
            "give the file as application/octet-stream, video/…, audio/… or multipart/form-data",
        )
    _, options = parse_options_header(request.headers.get("Content-Disposition"))
    chunks = uploads.read_chunks(request.stream, announced=request.content_length)
    return _write(chunks, options.get("filename") or named)


def _write(chunks: Iterable[bytes], filename: str | None) -> Received:
    return intake.receive(
        service().database,
        service().blobs,
        uploads.above_mark(chunks),
        owner=access.caller().owner,
        filename=intake.clean_filename(filename),
        bytes_max=service().upload_bytes_max,
    )


def _keep(received: Received, outcome: idempotency.Outcome) -> None:
    def settle(within: Transaction, recording: Recording) -> None:
        access.record("recording_uploaded", recording.id, within=within)
        place = url_for("recordings.show", recording_id=recording.id)
        outcome.settle(within, answer(recording_answer(recording), 201, {"Location": place}))

    intake.keep(
        service().database,
        service().blobs,
        received,
        limits=service().settings.media,
        then=settle,
    )


def _payload_sha256(received: Received) -> str:
    told = json.dumps([received.filename, received.sha256])
    return hashlib.sha256(told.encode()).hexdigest()
