"""Records as `jsonb` and back: what PostgreSQL's documents need beyond plain JSON."""

from __future__ import annotations

import math
from typing import TypeVar

from pipeline.ledger.text import storable
from pipeline.plain import Json, from_plain, to_plain

Record = TypeVar("Record")

FLOAT_TAG = "float"
EXACT_FLOATS_END = 1e16
"""From here on `jsonb` hands a float back as digits without a point, which reads as an int."""


def to_document(value: object) -> Json:
    """Raises TypeError for a value that is not made of records, tuples, mappings and scalars."""
    document: Json = to_plain(value, {str: storable, float: _tagged})
    return document


def from_document(record: type[Record], document: Json) -> Record:
    """Raises ValueError where the document is not the record that its column promises.

    A later release may have written it.
    """
    return from_plain(record, document, forms={float: _untagged}, is_from_later=True)


def _tagged(value: float) -> Json:
    is_exact = math.isfinite(value) and abs(value) < EXACT_FLOATS_END
    return value if is_exact else {FLOAT_TAG: repr(value)}


def _untagged(value: Json) -> float:
    if isinstance(value, dict) and value.keys() == {FLOAT_TAG}:
        return float(str(value[FLOAT_TAG]))
    if type(value) is int:
        return float(value)
    raise ValueError(f"expected float, got {type(value).__name__}")
