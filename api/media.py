"""A recording's bytes, in ranges, so that every link into it has a target."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from werkzeug.utils import send_file

from api import access
from api.documented import content, extra, problems
from api.recordings import RecordingPath
from api.service import service
from pipeline.ledger import recordings
from pipeline.ledger.errors import BlobMissing
from pipeline.ledger.recordings import Recording
from pipeline.records import Probe

FALLBACK_TYPE = "application/octet-stream"

MEDIA_POLICY = "default-src 'none'; media-src 'self'; style-src 'unsafe-inline'"
"""A browser that opens a recording by its address shows a player of its own."""

_BY_ENDING: Mapping[str, tuple[str, str]] = {
    "mov": ("video/quicktime", "audio/mp4"),
    "m4a": ("video/mp4", "audio/mp4"),
    "webm": ("video/webm", "audio/webm"),
}
"""Where one demuxer reads several types, the name tells which; with a picture, and without."""

_BY_FORMAT: Mapping[str, tuple[str, str]] = {
    "mp4": ("video/mp4", "audio/mp4"),
    "matroska": ("video/x-matroska", "audio/x-matroska"),
    "mpegts": ("video/mp2t", "video/mp2t"),
    "mpeg": ("video/mpeg", "video/mpeg"),
    "avi": ("video/x-msvideo", "video/x-msvideo"),
    "asf": ("video/x-ms-wmv", "audio/x-ms-wma"),
    "flv": ("video/x-flv", "video/x-flv"),
    "ogg": ("video/ogg", "audio/ogg"),
    "mp3": ("audio/mpeg", "audio/mpeg"),
    "aac": ("audio/aac", "audio/aac"),
    "flac": ("audio/flac", "audio/flac"),
    "wav": ("audio/wav", "audio/wav"),
    "aiff": ("audio/aiff", "audio/aiff"),
}
"""Never a type that a browser would run, whatever the name says."""

blueprint = APIBlueprint(
    "media",
    __name__,
    url_prefix="/v1/recordings",
    abp_tags=[Tag(name="recordings", description="The media files that jobs are about.")],
)


@blueprint.get(
    "/<recording_id>/media",
    responses={
        200: content("*/*", description="The whole file."),
        206: content("*/*", description="The range that was asked for."),
        304: {"description": "Unchanged."},
        416: {"description": "No such range; Content-Range tells the length."},
        **problems(404),
    },
    openapi_extensions=extra(headers=("Range", "If-Range", "If-None-Match")),
)
def fetch(path: RecordingPath) -> Response:
    """Fetch a recording's bytes

    One range is answered with 206; several at once are answered with the whole.
    """
    recording = recordings.get(service().database, path.recording_id, owner=access.sight())
    if not recording.is_stored:
        raise BlobMissing("no copy of this recording is held here; it was read where it lay")
    access.record_fetch("recording_fetched", recording.id)
    answer = send_file(
        service().blobs.path(recording.sha256).resolve(),
        _environment(),
        mimetype=media_type(recording),
        download_name=recording.filename,
        etag=recording.sha256,
        last_modified=recording.created_at,
        response_class=Response,
    )
    assert isinstance(answer, Response)
    answer.headers["Content-Security-Policy"] = MEDIA_POLICY
    answer.headers["Cache-Control"] = "private, no-cache"
    return answer


def media_type(recording: Recording) -> str:
    probe = recording.probe
    if probe is None:
        return FALLBACK_TYPE
    names = probe.format.split(",")
    ending = recording.filename.lower().rpartition(".")[2]
    pair = _BY_ENDING.get(ending) if ending in names else None
    for name in names:
        pair = pair or _BY_FORMAT.get(name)
    return FALLBACK_TYPE if pair is None else pair[0 if _has_picture(probe) else 1]


def _has_picture(probe: Probe) -> bool:
    return any(stream.kind == "video" and stream.is_chosen for stream in probe.streams)


def _environment() -> dict[str, object]:
    """This request without a Range that need not be understood: a server may ignore it."""
    environment = dict(request.environ)
    wanted = request.range
    if wanted is None or wanted.units != "bytes" or len(wanted.ranges) != 1:
        environment.pop("HTTP_RANGE", None)
    return environment
