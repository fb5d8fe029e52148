"""JSON answers, and the caching headers that every answer states."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Flask, Response
from pydantic import BaseModel

JSON_TYPE = "application/json"

SECURITY_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), interest-cohort=()",
}
"""On every answer; pages and briefs add a policy of their own."""

API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Nothing that the API answers is to be run, whatever it holds."""


def install(app: Flask) -> None:
    app.after_request(_secure)


def answer(
    model: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    made = Response(model.model_dump_json(), status=status, content_type=JSON_TYPE)
    made.headers.update(headers or {})
    return made


def _secure(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", API_POLICY)
    # What one key may see is not for a shared cache, and not for the next user of a browser.
    response.headers.setdefault("Cache-Control", "private, no-store")
    return response
