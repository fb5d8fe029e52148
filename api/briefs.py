"""The brief of a job as it stands, in the form that is asked for."""

from __future__ import annotations

from enum import Enum

from flask import Response, request, url_for
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.answers import answer
from api.documented import Answer, Strict, content, extra, problems
from api.errors import Refusal
from api.jobs import JobPath
from api.service import service
from pipeline.ledger import views
from pipeline.publish import BriefFormat, rendered
from pipeline.records import JobState

TYPES = {
    BriefFormat.JSON: "application/json",
    BriefFormat.MARKDOWN: "text/markdown",
    BriefFormat.HTML: "text/html",
}

BRIEF_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""The document holds its own style and pictures and runs nothing."""

blueprint = APIBlueprint(
    "briefs",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="briefs", description="The documents that analysts read.")],
)


class Format(str, Enum):
    """The forms of a brief."""

    JSON = "json"
    MD = "md"
    HTML = "html"


_FORMS = {
    Format.JSON: BriefFormat.JSON,
    Format.MD: BriefFormat.MARKDOWN,
    Format.HTML: BriefFormat.HTML,
}


class BriefQuery(Strict):
    format: Format | None = Field(None, description="Decides before the Accept header does.")


class NotReadyAnswer(Answer):
    """There is nothing to write a brief from yet."""

    state: JobState
    is_ready: bool = False


@blueprint.get(
    "/<job_id>/brief",
    responses={
        200: {
            "description": "The brief; while the job runs, of what is completed so far. A job that "
            "still waits for its recording is answered with its state.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                **content("text/markdown", "text/html", description="", binary=False)["content"],
            },
        },
        304: {"description": "Unchanged."},
        **problems(404, 406, 422),
    },
    openapi_extensions=extra(headers=("Accept", "If-None-Match")),
)
def fetch(path: JobPath, query: BriefQuery) -> Response:
    """Fetch the brief"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    form = _FORMS[query.format] if query.format else _accepted()
    access.record("brief_fetched", view.id, {"format": form.value})
    if view.recording_id is None:
        return answer(NotReadyAnswer(state=view.state))
    document = rendered(
        service().database,
        service().frames,
        view.id,
        form,
        release=service().release,
        recording_href=url_for("media.fetch", recording_id=view.recording_id),
        frame_href=lambda sha256: url_for("frames.fetch", job_id=view.id, sha256=sha256),
    )
    made = Response(document.content, content_type=f"{TYPES[form]}; charset=utf-8")
    if form is BriefFormat.JSON:
        made.content_type = TYPES[form]
    made.set_etag(f"{document.sha256[:32]}-{form.value}")
    made.headers["Cache-Control"] = "private, no-cache"
    made.headers["Vary"] = "Accept, Authorization, Cookie"
    if form is BriefFormat.HTML:
        made.headers["Content-Security-Policy"] = BRIEF_POLICY
        made.headers["X-Frame-Options"] = "SAMEORIGIN"
    made.make_conditional(request)
    return made


def _accepted() -> BriefFormat:
    """What the Accept header likes best; JSON where it says nothing."""
    if not request.accept_mimetypes:
        return BriefFormat.JSON
    best = request.accept_mimetypes.best_match(list(TYPES.values()))
    for form, kind in TYPES.items():
        if kind == best:
            return form
    raise Refusal("format_refused", f"a brief is {', '.join(TYPES.values())}; accept one of them")
