"""What a WSGI server loads: `gunicorn api.wsgi:app`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api import make_app
from pipeline import journal
from pipeline.settings import Settings

if TYPE_CHECKING:
    from flask import Flask


def __getattr__(name: str) -> Flask:
    """Made when a server asks for it, so that an import alone reads no settings."""
    if name == "app":
        settings = Settings.from_environment()
        journal.begin(settings)
        return make_app(settings)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
