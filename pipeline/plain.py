"""Records as plain JSON values and back, checked by their own annotations."""

from __future__ import annotations

import decimal
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, TypeVar

Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

T = TypeVar("T")

Forms = Mapping[type, Callable[[Any], Any]]
"""How values of exactly these types are written or read, where that is not the usual way."""

_NO_FORMS: Forms = {}


def to_plain(value: Any, forms: Forms = _NO_FORMS) -> Any:
    """Dataclasses become objects, tuples arrays, Decimals and dates strings; bytes are refused.

    `forms` give the final value of a type; keys of mappings are of type `str` too. Raises TypeError
    for what has no plain form.
    """
    if (form := forms.get(type(value))) is not None:
        return form(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: to_plain(getattr(value, part.name), forms) for part in fields(value)}
    if isinstance(value, Enum):
        return to_plain(value.value, forms)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {to_plain(str(key), forms): to_plain(item, forms) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item, forms) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(
    kind: type[T], value: Any, *, forms: Forms = _NO_FORMS, is_from_later: bool = False
) -> T:
    """The record of `kind` that `to_plain` made `value` from; ValueError where it does not fit.

    `forms` take what is not of the type itself, and raise ValueError. Fields that may be left out
    are filled in; `is_from_later` passes over those that a later release may have added.
    """
    return typing.cast(T, _Reader(forms, is_from_later=is_from_later).read(kind, value))


class _Reader:
    def __init__(self, forms: Forms, *, is_from_later: bool) -> None:
        self._forms = forms
        self._is_from_later = is_from_later

    def read(self, kind: Any, value: Any) -> Any:
        origin = typing.get_origin(kind)
        if origin in (typing.Union, types.UnionType):
            return self._read_union(kind, value)
        if origin is tuple:
            (item_kind, _) = typing.get_args(kind)
            return tuple(self.read(item_kind, item) for item in _expect(list, value))
        if origin is not None and issubclass(origin, Mapping):
            item_kind = typing.get_args(kind)[1]
            return {key: self.read(item_kind, item) for key, item in _expect(dict, value).items()}
        if is_dataclass(kind):
            return self._read_record(kind, value)
        if kind in self._forms and type(value) is not kind:
            return self._forms[kind](value)
        return _read_scalar(kind, value)

    def _read_union(self, kind: Any, value: Any) -> Any:
        for option in typing.get_args(kind):
            try:
                return self.read(option, value)
            except ValueError:
                continue
        raise ValueError(f"{type(value).__name__} is not {kind}")

    def _read_record(self, kind: Any, value: Any) -> Any:
        given = _expect(dict, value)
        hints = _hints(kind)
        unknown = sorted(given.keys() - hints.keys())
        if unknown and not self._is_from_later:
            raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}")
        missing = sorted(_needed(kind) - given.keys())
        if missing:
            raise ValueError(f"{kind.__name__} lacks {', '.join(missing)}")
        return kind(
            **{name: self.read(hints[name], item) for name, item in given.items() if name in hints}
        )


def _read_scalar(kind: Any, value: Any) -> Any:
    if kind is type(None):
        return _expect(type(None), value)
    if issubclass(kind, Enum):
        return kind(value)
    if kind is Decimal:
        return _read_decimal(_expect(str, value))
    if kind in (datetime, date):
        return kind.fromisoformat(_expect(str, value))
    if kind is float and type(value) is int:
        return float(value)
    return _expect(kind, value)


def _read_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError("expected a decimal number") from None


def _expect(kind: Any, value: Any) -> Any:
    # `bool` is an `int` to isinstance; `true` must not become 1.
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _needed(kind: Any) -> frozenset[str]:
    return frozenset(
        part.name
        for part in fields(kind)
        if part.default is MISSING and part.default_factory is MISSING
    )
