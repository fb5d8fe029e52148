"""A query parameter is given once: of two values, no rule says which one was meant."""

from __future__ import annotations

from flask import Flask, request

from pipeline.characters import quoted
from pipeline.errors import InputRefused, Problem


def install(app: Flask) -> None:
    """To be installed after access, so that a stranger learns nothing from it."""
    app.before_request(_check)


def _check() -> None:
    problems = [
        Problem(
            code="parameter_repeated",
            where=name,
            message=f"{quoted(name)} is given {len(values)} times; give it once",
        )
        for name, values in request.args.lists()
        if len(values) > 1
    ]
    if problems:
        raise InputRefused(*problems)
