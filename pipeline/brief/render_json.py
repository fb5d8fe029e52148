"""The brief as canonical JSON, which carries the digest of itself."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import NoReturn

from pipeline.brief.document import Brief, Moment, Span
from pipeline.decimals import decimal_text
from pipeline.plain import Forms, Json, to_plain


def to_json(brief: Brief) -> bytes:
    """Sorted keys, no white space, ASCII: whatever cannot be seen stays an escape."""
    document = _document(brief)
    return _canonical({**document, "sha256": _digest(document)})


def sha256(brief: Brief) -> str:
    """Digest of the canonical JSON without its `sha256`; every format prints it."""
    return _digest(_document(brief))


def content_sha256(brief: Brief) -> str:
    """As `sha256`, without the changes: equal for equal rows, whatever they are compared with."""
    document = _document(brief)
    del document["changes"]
    return _digest(document)


def _digest(document: dict[str, Json]) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: dict[str, Json]) -> bytes:
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def _document(brief: Brief) -> dict[str, Json]:
    document: dict[str, Json] = to_plain(brief, _FORMS)
    return document


def _with_text(stretch: Moment | Span) -> dict[str, Json]:
    return {**to_plain(stretch), "text": stretch.text}


def _refuse_float(value: float) -> NoReturn:
    raise TypeError("a brief holds no float: its digits would depend on who writes them")


_FORMS: Forms = {
    Decimal: decimal_text,
    Moment: _with_text,
    Span: _with_text,
    float: _refuse_float,
}
