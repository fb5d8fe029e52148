"""A recording's bytes, in ranges, so that every link into it has a target."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from werkzeug.http import dump_options_header

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
        **problems(404, 503),
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
    made = Response(mimetype=media_type(recording), direct_passthrough=True)
    made.headers["Content-Disposition"] = _disposition(recording.filename)
    made.headers["Content-Security-Policy"] = MEDIA_POLICY
    made.headers["Cache-Control"] = "private, no-cache"
    made.set_etag(recording.sha256)
    made.last_modified = recording.created_at
    made.content_length = recording.size_bytes
    # Sets the range that is to be sent, or refuses it.
    made.make_conditional(_environment(), accept_ranges=True, complete_length=recording.size_bytes)
    if made.status_code in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        _fill(made, recording)
    return made


def _fill(made: Response, recording: Recording) -> None:
    """Only what was asked for is read, a piece at a time, as fast as it is taken."""
    blobs = service().blobs
    if request.method == "HEAD":
        blobs.size(recording.sha256)  # what is gone is told here too
        return
    span = made.content_range
    start, end = 0, recording.size_bytes
    if span is not None and span.start is not None and span.stop is not None:
        start, end = span.start, span.stop
    made.response = blobs.read(recording.sha256, start=start, end=end)


def _disposition(filename: str) -> str:
    """The name as it was given (RFC 6266); what is not ASCII in a spelling of its own too."""
    names = {"filename": filename}
    if not filename.isascii():
        plain = unicodedata.normalize("NFKD", filename).encode("ascii", "ignore").decode()
        names = {"filename": plain, "filename*": f"UTF-8''{quote(filename, safe='')}"}
    return dump_options_header("inline", names)


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
