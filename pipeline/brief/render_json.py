"""The brief as canonical JSON, which carries the digest of itself."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum

from pipeline.brief.document import Brief, Moment, Span
from pipeline.brief.figures import plain

Json = str | int | bool | None | list["Json"] | dict[str, "Json"]


def to_json(brief: Brief) -> bytes:
    """Sorted keys, no white space, ASCII: whatever cannot be seen stays an escape."""
    document = _document(brief)
    return _canonical({**document, "sha256": _digest(document)})


def sha256(brief: Brief) -> str:
    """Digest of the canonical JSON without its `sha256`; every format prints it."""
    return _digest(_document(brief))


def _digest(document: dict[str, Json]) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: dict[str, Json]) -> bytes:
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def _document(brief: Brief) -> dict[str, Json]:
    return _object(brief)


def _object(record: object) -> dict[str, Json]:
    entries = {
        field.name: _value(getattr(record, field.name))
        for field in fields(record)  # type: ignore[arg-type]
    }
    if isinstance(record, (Moment, Span)):
        entries["text"] = record.text
    return entries


def _value(value: object) -> Json:
    if isinstance(value, Enum):
        return str(value.value)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if is_dataclass(value):
        return _object(value)
    raise TypeError(f"a brief holds no {type(value).__name__}")
