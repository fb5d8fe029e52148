"""The body of a submission as the OpenAPI document describes it; its check is elsewhere."""

from __future__ import annotations

from typing import Any

from pipeline.link import CHARS_MAX
from pipeline.request import (
    MAY_BE_NULL,
    OBJECTIVE_CHARS_MAX,
    OPTION_BOUNDS,
    TITLE_CHARS_MAX,
)
from pipeline.schedule import OWN_PRIORITY_MIN, PRIORITY_BOUNDS

BETWEEN_BLANKS = "blanks at its ends not counted"
"""JSON Schema counts them; a limit there would say that a text is refused which is accepted."""

_HOLDING: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "name", "currency", "asset_type", "weight_pct"],
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "ticker": {"type": ["string", "null"]},
        "exchange": {"type": ["string", "null"]},
        "currency": {"type": "string", "description": "ISO 4217."},
        "asset_type": {"type": "string"},
        "weight_pct": {"type": ["number", "string"]},
        "aliases": {"type": ["array", "null"], "items": {"type": "string"}},
    },
}
_HOLDINGS: dict[str, Any] = {"type": "array", "items": _HOLDING}

_ABOUT: dict[str, dict[str, str]] = {
    f"{kind}_stream": {
        "description": f"Index of the {kind} stream to watch, as the recording's probe lists it;"
        " null leaves the choice to OmnAI."
    }
    for kind in ("audio", "video")
}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["portfolio", "objective"],
    "oneOf": [{"required": ["recording_id"]}, {"required": ["source_url"]}],
    "properties": {
        "recording_id": {"type": "string", "format": "uuid"},
        "source_url": {
            "type": "string",
            "description": "Instead of an uploaded recording: an https:// link to its file, on port"
            " 443 of a public host, without credentials or a fragment. Refused where the"
            " installation fetches no links.",
            "maxLength": CHARS_MAX,
            "pattern": "^https://",
        },
        "portfolio": {
            "description": "Holdings as JSON, or a CSV file's content as text.",
            "oneOf": [
                _HOLDINGS,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["holdings"],
                    "properties": {"holdings": _HOLDINGS},
                },
                {"type": "string"},
            ],
        },
        "objective": {
            "type": "string",
            "minLength": 1,
            "description": f"At most {OBJECTIVE_CHARS_MAX} characters, {BETWEEN_BLANKS}.",
        },
        "title": {
            "type": ["string", "null"],
            "description": f"At most {TITLE_CHARS_MAX} characters, {BETWEEN_BLANKS}.",
        },
        "event_date": {
            "type": ["string", "null"],
            "description": "A day as YYYY-MM-DD; blank is none.",
            "pattern": r"^\s*([0-9]{4}-[0-9]{2}-[0-9]{2})?\s*$",
        },
        "engine": {
            "type": ["string", "null"],
            "description": "The installation's own choice where none is named.",
        },
        "options": {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {
                name: {
                    "type": ["integer", "null"] if name in MAY_BE_NULL else "integer",
                    "minimum": least,
                    "maximum": greatest,
                }
                | _ABOUT.get(name, {})
                for name, (least, greatest) in OPTION_BOUNDS.items()
            },
        },
        "priority": {
            "type": ["integer", "null"],
            "minimum": PRIORITY_BOUNDS[0],
            "maximum": PRIORITY_BOUNDS[1],
            "description": "Smaller is claimed first, then the older one; 0 where none is given."
            f" Below {OWN_PRIORITY_MIN} it is for admins.",
        },
        "not_before": {
            "type": ["string", "null"],
            "format": "date-time",
            "description": "No worker begins with it earlier. With its offset (RFC 3339).",
        },
        "ready_by": {
            "type": ["string", "null"],
            "format": "date-time",
            "description": "When its brief is wanted, with its offset (RFC 3339). The order stays"
            " as it is; the answer's `forecast` says whether this installation can make it.",
        },
    },
}

_HOLDING_EXAMPLE = {
    "id": "H1",
    "name": "Alpha Corp",
    "ticker": "ALP",
    "exchange": "NYSE",
    "currency": "USD",
    "asset_type": "equity",
    "weight_pct": "60",
}
_RECORDING_EXAMPLE = "4b0c5e1c-6f3e-4a55-9d0e-6d1b6f5d4f10"

SUBMISSION_BODY: dict[str, Any] = {
    "application/json": {
        "schema": _SCHEMA,
        "examples": {
            "json": {
                "summary": "Holdings as JSON",
                "value": {
                    "recording_id": _RECORDING_EXAMPLE,
                    "portfolio": [_HOLDING_EXAMPLE],
                    "objective": "What bears on margins?",
                    "title": "Q3 call",
                    "event_date": "2026-03-31",
                    "options": {"start_s": 0},
                },
            },
            "link": {
                "summary": "A link in the recording's place",
                "value": {
                    "source_url": "https://example.com/calls/q3.mp4",
                    "portfolio": [_HOLDING_EXAMPLE],
                    "objective": "What bears on margins?",
                },
            },
            "csv": {
                "summary": "Holdings as CSV",
                "value": {
                    "recording_id": _RECORDING_EXAMPLE,
                    "portfolio": "id,name,currency,asset_type,weight_pct\nH1,Alpha,USD,equity,60\n",
                    "objective": "What bears on margins?",
                },
            },
        },
    }
}
