"""A JSON body as named members, each with its own text, so that no digit is lost on the way."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flask import request

from api.errors import Refusal
from pipeline.errors import InputRefused, Problem

_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One value of the body's object."""

    value: Any
    text: str
    """As it was written."""


def read_members(known: Collection[str]) -> Mapping[str, Member]:
    """The body of this request; InputRefused names every member that is unknown or repeated."""
    if request.mimetype != "application/json":
        raise Refusal("media_type_refused", "the body has to be JSON, as application/json")
    members, problems = _parse(_decoded(request.get_data(cache=True)))
    for name in members:
        if name not in known:
            near = difflib.get_close_matches(name[:60], known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"accepted: {', '.join(known)}"
            problems.append(
                Problem(
                    code="field_unknown",
                    where=f"/{_pointer(name)}",
                    message=f"no such field; {hint}",
                )
            )
    if problems:
        raise InputRefused(*problems)
    return members


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(
            "json_malformed", f"the body is no UTF-8, from byte {error.start + 1} on"
        ) from error


def _parse(text: str) -> tuple[dict[str, Member], list[Problem]]:
    try:
        return _object(text)
    except json.JSONDecodeError as error:
        raise Refusal(
            "json_malformed",
            f"the body is no JSON object: line {error.lineno}, column {error.colno}: {error.msg}",
        ) from error
    except (RecursionError, ValueError) as error:
        raise Refusal(
            "json_malformed", "the body is nested too deeply, or a number in it is too long"
        ) from error


def _object(text: str) -> tuple[dict[str, Member], list[Problem]]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    members: dict[str, Member] = {}
    problems: list[Problem] = []
    at = _expect(text, _skip(text, 0), "{")
    is_empty = text[at : at + 1] == "}"
    while not is_empty:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting a name in double quotes", text, at)
        name, at = decoder.raw_decode(text, at)
        start = _expect(text, _skip(text, at), ":")
        value, end = decoder.raw_decode(text, start)
        if name in members:
            problems.append(
                Problem(
                    code="field_repeated",
                    where=f"/{_pointer(name)}",
                    message="the field is given more than once; give it once",
                )
            )
        members[name] = Member(value=value, text=text[start:end])
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
    end = _skip(text, _expect(text, at, "}"))
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return members, problems


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"Expecting “{mark}”", text, at)
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _pointer(name: str) -> str:
    printable = "".join(c if c.isprintable() else "�" for c in name[:60])
    return printable.replace("~", "~0").replace("/", "~1")
