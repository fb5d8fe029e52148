"""The published schema of what programs read."""

from __future__ import annotations

import importlib.resources

from flask import Response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag

from api.documented import extra
from pipeline.brief.document import SCHEMA

SCHEMA_TYPE = "application/schema+json"

blueprint = APIBlueprint(
    "schemas",
    __name__,
    url_prefix="/v1/schemas",
    abp_tags=[Tag(name="briefs", description="The documents that analysts read.")],
)


@blueprint.get(
    "/brief",
    responses={
        200: {
            "description": "The schema of the brief as JSON, for this release.",
            "content": {SCHEMA_TYPE: {"schema": {"type": "object"}}},
        },
        304: {"description": "Unchanged."},
    },
    openapi_extensions=extra(headers=("If-None-Match",)),
)
def brief() -> Response:
    """Fetch the brief's JSON schema"""
    name = f"{SCHEMA.replace('/', '-')}.json"
    file = importlib.resources.files("pipeline.brief") / "schema" / name
    made = Response(file.read_bytes(), content_type=SCHEMA_TYPE)
    made.headers["Cache-Control"] = "private, no-cache"
    made.add_etag()
    made.make_conditional(request)
    return made
