"""What a route says of itself beyond its models, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from api.errors import PROBLEM_TYPE

EXTENSION = "x-omnai"
"""Where a route keeps it until the document is made; not part of what is served."""

PROBLEM_REF = {"$ref": "#/components/schemas/Problem"}


class Strict(BaseModel):
    """What is given; unknown names are refused."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """What is answered."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def problems(*statuses: int) -> dict[int | str, Any]:
    """Answers that are problems, for `responses`."""
    return {status: {"content": {PROBLEM_TYPE: {"schema": PROBLEM_REF}}} for status in statuses}


def content(*types: str, description: str, binary: bool = True) -> dict[str, Any]:
    """An answer that is no JSON model."""
    schema = {"type": "string", "format": "binary"} if binary else {"type": "string"}
    return {"description": description, "content": {kind: {"schema": schema} for kind in types}}


def extra(
    *,
    headers: tuple[str, ...] = (),
    body: dict[str, Any] | None = None,
    is_open: bool = False,
) -> dict[str, Any]:
    """Request headers by name, the body's content by type, and whether no key is needed."""
    return {EXTENSION: {"headers": headers, "body": body, "is_open": is_open}}
