"""The OpenAPI document: what the framework knows of the routes, and what they say of themselves."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Response, current_app, json

from api.documented import EXTENSION, problems

KEY_SCHEME = "key"

METHODS = ("get", "post", "put", "patch", "delete")

HEADERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Idempotency-Key": (
        "The same key with the same payload gives the first answer; kept for 24 hours.",
        {"type": "string", "pattern": "^[\\x21-\\x7e]{1,200}$"},
    ),
    "Content-Disposition": (
        "Names the file of a raw upload: `attachment; filename*=UTF-8''q3%20call.mp4`.",
        {"type": "string"},
    ),
    "Tus-Resumable": ("The version of tus.", {"type": "string", "const": "1.0.0"}),
    "Upload-Checksum": (
        "`sha1` or `sha256`, a space, and the digest of the part in Base64.",
        {"type": "string", "pattern": "^sha(1|256) [A-Za-z0-9+/]+={0,2}$"},
    ),
    "Upload-Length": ("Bytes of the whole file.", {"type": "integer", "minimum": 1}),
    "Upload-Metadata": (
        "Names with their values in Base64; `filename cTMubXA0` names the file.",
        {"type": "string", "maxLength": 4000},
    ),
    "Upload-Offset": ("Where the part begins.", {"type": "integer", "minimum": 0}),
    "If-None-Match": ("Answered with 304 where nothing has changed.", {"type": "string"}),
    "If-Range": ("The range counts only while the ETag still fits.", {"type": "string"}),
    "Prefer": ("`wait=30` waits so many seconds, at most 60, for a change.", {"type": "string"}),
    "Range": ("One range of bytes.", {"type": "string"}),
}

REQUIRED = frozenset({"Tus-Resumable", "Upload-Length", "Upload-Offset"})

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457 problem details. Programs go by `code`.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["code", "detail"],
                "properties": {
                    "code": {"type": "string"},
                    "pointer": {"type": "string", "description": "JSON pointer into the body."},
                    "parameter": {"type": "string", "description": "Parameter or header."},
                    "detail": {"type": "string"},
                },
            },
        },
    },
    "example": {
        "type": "about:blank",
        "title": "Unprocessable Entity",
        "status": 422,
        "code": "input_refused",
        "detail": "/options/sed: no such option; did you mean seed?",
        "errors": [
            {
                "code": "option_unknown",
                "pointer": "/options/sed",
                "detail": "no such option; did you mean seed?",
            }
        ],
    },
}

_ALWAYS = (500, 503)


def serve() -> Response:
    """Hand out the document; it is the same for as long as the process lives."""
    return Response(json.dumps(document(current_app)), content_type="application/json")


def document(app: Any) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(app.api_doc)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas.pop(app.validation_error_model.__name__, None)
    schemas["Problem"] = PROBLEM_SCHEMA
    made["components"]["securitySchemes"] = {
        KEY_SCHEME: {"type": "http", "scheme": "bearer", "description": "An API key."}
    }
    made["security"] = [{KEY_SCHEME: []}]
    for operation in _operations(made):
        _complete(operation)
    return made


def _operations(made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for item in made["paths"].values():
        for method in METHODS:
            if method in item:
                yield item[method]


def _complete(operation: dict[str, Any]) -> None:
    told = operation.pop(EXTENSION, {"headers": (), "body": None, "is_open": False})
    answers = operation["responses"]
    # The framework's own words for a refusal are not ours.
    if "application/json" in answers.get("422", {}).get("content", {}):
        del answers["422"]
    if told["is_open"]:
        operation["security"] = []
    statuses = (*_ALWAYS, *(() if told["is_open"] else (401,)))
    takes_parameters = any(given["in"] == "query" for given in operation.get("parameters", ()))
    if takes_parameters or "Idempotency-Key" in told["headers"]:
        statuses = (*statuses, 422)
    for status, response in problems(*statuses).items():
        answers.setdefault(str(status), response)
    for status, response in answers.items():
        response.setdefault("description", "") or response.update(description=_TITLES[status])
    if told["body"] is not None:
        operation["requestBody"] = {"required": True, "content": told["body"]}
    for name in told["headers"]:
        if name in HEADERS:
            words, schema = HEADERS[name]
            operation.setdefault("parameters", []).append(
                {
                    "name": name,
                    "in": "header",
                    "required": name in REQUIRED,
                    "description": words,
                    "schema": schema,
                }
            )
    operation["summary"] = operation.get("summary", "").strip()
    if "description" in operation:
        operation["description"] = operation["description"].replace("<br/>", " ").strip()


_TITLES = {
    "200": "The answer.",
    "201": "Stored.",
    "202": "Accepted.",
    "204": "Done.",
    "400": "The request is malformed.",
    "401": "No valid key.",
    "403": "Not allowed to this key.",
    "404": "There is no such thing, or it is another's.",
    "406": "No form that is accepted.",
    "409": "It does not fit the state of things.",
    "410": "It has ended.",
    "412": "Another version of tus.",
    "413": "Too large.",
    "415": "A content type that is not accepted.",
    "416": "No such range.",
    "422": "Refused; each thing that is wrong is listed.",
    "423": "Another request is writing to it.",
    "460": "The bytes are not those that the checksum is of.",
    "500": "A fault of OmnAI's own.",
    "503": "The database does not answer, or too many recordings are being taken in; ask again.",
    "507": "The disk is full.",
}
