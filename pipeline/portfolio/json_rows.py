"""Holdings from JSON: a list, or an object with `holdings`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable

from pipeline.characters import pointer_token, quoted
from pipeline.errors import InputRefused, Problem
from pipeline.portfolio.rows import FAULTY, FIELDS, Row, Table, Value
from pipeline.portfolio.weight import ACCEPTED, WeightRefused, weight_from_program


class _Number(str):
    """A number as written, so that no digit is lost and none is converted before it is checked."""


class _Object(dict[str, object]):
    """A JSON object that remembers which of its keys came twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated: list[str] = []
        for key, _ in pairs:
            if key in seen and key not in self.repeated:
                self.repeated.append(key)
            seen.add(key)


def read_json(text: str) -> Table:
    """Raises InputRefused where the text is no JSON or no portfolio at all."""
    problems: list[Problem] = []
    items, prefix = _items(_parsed(text), problems)
    rows = [
        row
        for index, item in enumerate(items)
        if (row := _row(item, f"{prefix}/{index}", problems)) is not None
    ]
    return Table(rows=tuple(rows), problems=tuple(problems))


def _parsed(text: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_Object,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_Number,
        )
    except json.JSONDecodeError as error:
        message = f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        message = "it is nested too deeply; give a list of holdings"
    raise InputRefused(Problem(code="json_malformed", where="", message=message))


def _items(content: object, problems: list[Problem]) -> tuple[list[object], str]:
    prefix = ""
    if isinstance(content, _Object):
        _check_keys(content, ("holdings",), "", problems)
        content, prefix = content.get("holdings"), "/holdings"
    if not isinstance(content, list):
        problems.append(
            Problem(
                code="portfolio_format",
                where=prefix,
                message="no list of holdings; give a list, or an object with a list “holdings”",
            )
        )
        raise InputRefused(*problems)
    return content, prefix


def _row(item: object, place: str, problems: list[Problem]) -> Row | None:
    if not isinstance(item, _Object):
        problems.append(
            Problem(
                code="field_type",
                where=place,
                message=f"it is {_kind(item)}; a holding is an object with {', '.join(FIELDS)}",
            )
        )
        return None
    _check_keys(item, FIELDS, place, problems)
    values = {
        name: _READERS.get(name, _text)(item.get(name), f"{place}/{name}", problems)
        for name in FIELDS
    }
    return Row(values=values, where=lambda name: f"{place}/{name}" if name else place)


def _check_keys(item: _Object, known: tuple[str, ...], place: str, problems: list[Problem]) -> None:
    for key in item:
        if key in known:
            continue
        near = difflib.get_close_matches(key[:60].lower(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        problems.append(
            Problem(
                code="field_unknown",
                where=f"{place}/{pointer_token(key)}",
                message=f"no such field; {hint}",
            )
        )
    for key in item.repeated:
        problems.append(
            Problem(
                code="field_repeated",
                where=f"{place}/{pointer_token(key)}",
                message="the field is given more than once; give it once",
            )
        )


def _text(value: object, place: str, problems: list[Problem]) -> Value:
    if value is None:
        return None
    if isinstance(value, str) and not isinstance(value, _Number):
        return value
    problems.append(
        Problem(code="field_type", where=place, message=f"it is {_kind(value)}; give text")
    )
    return FAULTY


def _weight(value: object, place: str, problems: list[Problem]) -> Value:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return weight_from_program(value.strip())
        raise WeightRefused("field_type", f"it is {_kind(value)}; give {ACCEPTED}")
    except WeightRefused as refused:
        problems.append(Problem(code=refused.code, where=place, message=str(refused)))
    return FAULTY


def _aliases(value: object, place: str, problems: list[Problem]) -> Value:
    if value is None:
        return None
    if isinstance(value, list) and all(
        isinstance(alias, str) and not isinstance(alias, _Number) for alias in value
    ):
        return tuple(value)
    problems.append(
        Problem(code="field_type", where=place, message="it is no list of names; give a list")
    )
    return FAULTY


_READERS: dict[str, Callable[[object, str, list[Problem]], Value]] = {
    "weight_pct": _weight,
    "aliases": _aliases,
}


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, _Number):
        return f"the number {quoted(value)}"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"
