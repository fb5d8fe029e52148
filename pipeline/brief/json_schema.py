"""The published schema of the brief's JSON form, made from the document model itself."""

from __future__ import annotations

import importlib.resources
import json
import types
import typing
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from pipeline.brief.document import SCHEMA, Brief, Moment, Span

FILE = f"{SCHEMA.replace('/', '-')}.json"
"""In the folder `schema`; a new version is a new file, and the old ones stay."""

_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_DECIMAL = {"type": "string", "pattern": r"^-?\d+(\.\d+)?$"}
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    Decimal: _DECIMAL,
    types.NoneType: {"type": "null"},
}
_WITH_TEXT = (Moment, Span)
"""Their JSON form also has them as people read them."""


def published() -> bytes:
    """The schema as it is shipped. Lets OSError through."""
    folder = importlib.resources.files("pipeline.brief") / "schema"
    return (folder / FILE).read_bytes()


def written() -> bytes:
    """What the shipped file must hold, byte for byte; a test compares the two."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=True).encode() + b"\n"


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12. Readers pass over names that they do not know: more may be added."""
    definitions: dict[str, Any] = {}
    root = _record(Brief, definitions)
    root["properties"]["schema"] = {"const": SCHEMA}
    root["properties"]["sha256"] = {
        **_HASH,
        "description": "Digest of this document's canonical form without this name.",
    }
    root["required"] = [*root["required"], "sha256"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA.replace('.', ':').replace('/', ':')}",
        "title": SCHEMA,
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _form(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _either([_form(option, definitions) for option in typing.get_args(kind)])
    if origin is tuple:
        (item, _) = typing.get_args(kind)
        return {"type": "array", "items": _form(item, definitions)}
    if is_dataclass(kind):
        return _reference(typing.cast(type, kind), definitions)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return dict(_SCALARS[kind])


def _either(options: list[dict[str, Any]]) -> dict[str, Any]:
    if all(option.keys() == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _reference(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = _record(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _record(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties = {
        part.name: _HASH if part.name.endswith("sha256") else _form(hints[part.name], definitions)
        for part in fields(kind)
    }
    if kind in _WITH_TEXT:
        properties["text"] = {"type": "string"}
    return {
        "type": "object",
        "description": kind.__doc__,
        "properties": properties,
        "required": list(properties),
    }
