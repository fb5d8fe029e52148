"""The frames that a job's texts name."""

from __future__ import annotations

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import Field

from api import access
from api.documented import Strict, content, extra, problems
from api.service import service
from pipeline.ledger import views
from pipeline.ledger.errors import FrameMissing

YEAR_S = 365 * 24 * 3600

blueprint = APIBlueprint(
    "frames",
    __name__,
    url_prefix="/v1/jobs",
    abp_tags=[Tag(name="evidence", description="What was observed, and where.")],
)


class FramePath(Strict):
    job_id: str = Field(description="The job's id.")
    sha256: str = Field(description="The frame's digest, as findings and evidence name it.")


@blueprint.get(
    "/<job_id>/frames/<sha256>.jpg",
    responses={
        200: content("image/jpeg", description="The frame; its bytes never change."),
        304: {"description": "Unchanged."},
        **problems(404),
    },
    openapi_extensions=extra(headers=("If-None-Match",)),
)
def fetch(path: FramePath) -> Response:
    """Fetch a frame"""
    view = views.get(service().database, path.job_id, owner=access.sight())
    # Frames are shared by their bytes; a digest alone must not open another job's.
    if not views.has_frame(service().database, view.id, path.sha256):
        raise FrameMissing
    made = Response(service().frames.read(path.sha256), content_type="image/jpeg")
    made.set_etag(path.sha256)
    made.headers["Cache-Control"] = f"private, max-age={YEAR_S}, immutable"
    made.make_conditional(request)
    return made
