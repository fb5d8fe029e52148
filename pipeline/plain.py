"""Records as plain JSON values and back, checked by their own annotations."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses become objects, tuples arrays, Decimals and dates strings; bytes are refused."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(kind: type[T], value: Any) -> T:
    """The record of `kind` that `to_plain` made `value` from; ValueError where it does not fit."""
    return typing.cast(T, _read(kind, value))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(kind, value)
    if origin is tuple:
        (item_kind, _) = typing.get_args(kind)
        return tuple(_read(item_kind, item) for item in _expect(list, value))
    if origin is not None and issubclass(origin, Mapping):
        item_kind = typing.get_args(kind)[1]
        return {key: _read(item_kind, item) for key, item in _expect(dict, value).items()}
    if is_dataclass(kind):
        return _read_record(kind, value)
    if kind is type(None):
        return _expect(type(None), value)
    if issubclass(kind, Enum):
        return kind(value)
    if kind is Decimal:
        return Decimal(_expect(str, value))
    if kind in (datetime, date):
        return kind.fromisoformat(_expect(str, value))
    if kind is float and type(value) is int:
        return float(value)
    return _expect(kind, value)


def _read_union(kind: Any, value: Any) -> Any:
    for option in typing.get_args(kind):
        try:
            return _read(option, value)
        except ValueError:
            continue
    raise ValueError(f"{type(value).__name__} is not {kind}")


def _read_record(kind: Any, value: Any) -> Any:
    given = _expect(dict, value)
    hints = _hints(kind)
    unknown = given.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    try:
        return kind(**{name: _read(hints[name], item) for name, item in given.items()})
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


def _expect(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
