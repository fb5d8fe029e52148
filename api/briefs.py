"""The brief of a job as it stands, in the form that is asked for."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO, cast
from urllib.parse import urlsplit, urlunsplit

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access, downloads
from api.answers import answer
from api.documented import Answer, Strict, content, extra, problems
from api.errors import Refusal
from api.jobs import JobPath
from api.service import service
from pipeline.brief.evidence_zip import KeptRecording
from pipeline.brief.past import PastBrief
from pipeline.ledger import recordings, views
from pipeline.ledger.errors import BlobMissing
from pipeline.ledger.views import JobView
from pipeline.publish import BriefFormat, archived, past_brief, rendered
from pipeline.records import JobState

OFFICE = "application/vnd.openxmlformats-officedocument"

TYPES = {
    BriefFormat.JSON: "application/json",
    BriefFormat.MARKDOWN: "text/markdown",
    BriefFormat.HTML: "text/html",
    BriefFormat.PDF: "application/pdf",
    BriefFormat.DOCX: f"{OFFICE}.wordprocessingml.document",
    BriefFormat.CSV: "text/csv",
    BriefFormat.XLSX: f"{OFFICE}.spreadsheetml.sheet",
    BriefFormat.VTT: "text/vtt",
    BriefFormat.SRT: "application/x-subrip",
    BriefFormat.ZIP: "application/zip",
}

_TEXTS = tuple(kind for kind in TYPES.values() if kind.startswith("text/"))
_FILES = tuple(kind for kind in TYPES.values() if kind not in (*_TEXTS, "application/json"))

SHOWN = (BriefFormat.JSON, BriefFormat.MARKDOWN, BriefFormat.HTML)
"""What a browser shows; the others are for programs that open files."""

BRIEF_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""The document holds its own style and pictures and runs nothing."""

SPOOL_BYTES = 4 * 1024**2
"""Larger files wait on the disk, and not in memory, for a reader to take them."""
PIECE_BYTES = 256 * 1024

blueprint = APIBlueprint(
    "briefs",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="briefs", description="The documents that analysts read.")],
)


class BriefQuery(Strict):
    format: BriefFormat | None = Field(None, description="Decides before the Accept header does.")
    against: str | None = Field(
        None,
        max_length=100,
        description="Another job's id; the changes against its newest stored brief are told too.",
    )


class NotReadyAnswer(Answer):
    """There is nothing to write a brief from yet."""

    state: JobState
    is_ready: bool = False


@blueprint.get(
    "/<job_id>/brief",
    responses={
        200: {
            "description": "The brief; while the job runs, of what is completed so far. A job that "
            "still waits for its recording is answered with its state. `Repr-Digest` has the "
            "SHA-256 of the file itself; the one that every form prints is of the canonical JSON.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                **content(*_TEXTS, description="", binary=False)["content"],
                **content(*_FILES, description="")["content"],
            },
        },
        304: {"description": "Unchanged."},
        **problems(404, 406, 409, 422),
    },
    openapi_extensions=extra(headers=("Accept", "If-None-Match")),
)
def fetch(path: JobPath, query: BriefQuery) -> Response:
    """Fetch the brief"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    against = None if query.against is None else _past(query.against)
    form = query.format or _accepted()
    access.record("brief_fetched", view.id, {"format": form.value})
    if view.recording_id is None:
        return answer(NotReadyAnswer(state=view.state))
    file, sha256 = _written(view, view.recording_id, form, against)
    made = Response(_pieces(file))
    made.content_length = file.tell()
    made.call_on_close(file.close)
    made.content_type = TYPES[form]
    if TYPES[form] in _TEXTS:
        made.content_type += "; charset=utf-8"
    made.headers["Content-Disposition"] = downloads.disposition(
        _title(view), ending=form.value, is_shown=form in SHOWN
    )
    downloads.seal(made, sha256)
    made.headers["Cache-Control"] = "private, no-cache"
    made.headers["Vary"] = "Accept, Authorization, Cookie"
    if form is BriefFormat.HTML:
        made.headers["Content-Security-Policy"] = BRIEF_POLICY
        made.headers["X-Frame-Options"] = "SAMEORIGIN"
    made.make_conditional(request)
    return made


def _written(
    view: JobView, recording_id: str, form: BriefFormat, against: PastBrief | None
) -> tuple[BinaryIO, bytes]:
    """The whole file, read to its end, and the digest of its bytes."""
    # Whoever sends it closes it.
    file = cast(BinaryIO, tempfile.SpooledTemporaryFile(SPOOL_BYTES))  # noqa: SIM115
    try:
        if form is BriefFormat.ZIP:
            archived(
                service().database,
                service().frames,
                view.id,
                file,
                release=service().release,
                recording=_kept(recording_id),
                against=against,
            )
        else:
            file.write(_content(view, recording_id, form, against))
        file.seek(0)
        digest = hashlib.sha256()
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    except BaseException:
        file.close()
        raise
    return file, digest.digest()


def _content(
    view: JobView, recording_id: str, form: BriefFormat, against: PastBrief | None
) -> bytes:
    # Only a page that the browser itself shows finds its way back here without an address.
    host = "" if form is BriefFormat.HTML else _host()
    document = rendered(
        service().database,
        service().frames,
        view.id,
        form,
        release=service().release,
        recording_href=host + url_for("media.fetch", recording_id=recording_id),
        frame_href=lambda sha256: host + url_for("frames.fetch", job_id=view.id, sha256=sha256),
        against=against,
    )
    return document.content


def _host() -> str:
    """Where OmnAI is said to be found; not who a client says we are, and not with a password."""
    parts = urlsplit(service().settings.api_url)
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return urlunsplit(place).rstrip("/")


def _kept(recording_id: str) -> KeptRecording | None:
    sha256 = recordings.get(service().database, recording_id, owner=None).sha256
    blobs = service().blobs
    try:
        size_bytes = blobs.size(sha256)
    except BlobMissing:
        return None
    return KeptRecording(
        size_bytes=size_bytes, read=lambda: blobs.read(sha256, start=0, end=size_bytes)
    )


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


def _past(job_id: str) -> PastBrief:
    """Raises JobUnknown also for a job that the caller may not see."""
    other = views.get(service().database, job_id, owner=access.sight())
    past = past_brief(service().database, other.id)
    if past is None:
        raise Refusal("brief_missing", "the job to compare with has no brief yet")
    return past


def _title(view: JobView) -> str:
    day = "" if view.event_date is None else f" {view.event_date.isoformat()}"
    return f"{view.title or PurePath(view.filename).stem}{day}"


def _accepted() -> BriefFormat:
    """What the Accept header likes best; JSON where it says nothing."""
    if not request.accept_mimetypes:
        return BriefFormat.JSON
    best = request.accept_mimetypes.best_match(list(TYPES.values()))
    for form, kind in TYPES.items():
        if kind == best:
            return form
    raise Refusal("format_refused", f"a brief is {', '.join(TYPES.values())}; accept one of them")
