"""The HTTP service: submit, watch and fetch."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pipeline.settings import Settings

if TYPE_CHECKING:
    from flask_openapi3.openapi import OpenAPI

ENGINES = ("rehearsal", "minicpmo")
"""What a job may ask for in this release; the engines themselves are the workers' business."""


def make_app(settings: Settings, *, engines: Collection[str] = ENGINES) -> OpenAPI:
    """The application over the database of the settings. Raises SettingsRefused without one.

    Connects with the first request, so that it can be made before a server forks.
    """
    from api.factory import build

    return build(settings, engines=engines)
