"""What Prometheus reads: from the database at each scrape, and so alike from every API."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from api.access import is_open_where, require_admin
from api.documented import content, problems
from api.figures import Disk, Figures, Here
from api.service import Service, service
from pipeline.ledger import gauges
from pipeline.ledger.errors import DatabaseUnavailable, SchemaOutdated
from pipeline.ledger.space import space_of
from pipeline.settings import Settings

blueprint = APIBlueprint(
    "metrics", __name__, abp_tags=[Tag(name="health", description="For whoever looks after it.")]
)


def is_open(settings: Settings) -> bool:
    return settings.metrics_open


@blueprint.get(
    "/metrics",
    responses={
        200: content("text/plain", description="Prometheus text format 0.0.4.", binary=False),
        **problems(401, 403, 503),
    },
)
@is_open_where(is_open)
def metrics() -> Response:
    """Fetch figures for Prometheus

    For an admin's key as a bearer token, or for everybody where the operator has opened it.
    """
    here = service()
    if not is_open(here.settings):
        require_admin()
    registry = CollectorRegistry()
    registry.register(figures(here))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def figures(here: Service) -> Figures:
    """What is to be told now."""
    active, waiting = here.admission.load()
    night, space = here.settings.window, space_of(here.settings)
    about = Here(
        release=here.release,
        engines=here.engines,
        stale_s=here.settings.stale_s,
        disk=_disk(space.folder),
        free_bytes_min=space.free_bytes_min,
        uploads_active=active,
        uploads_waiting=waiting,
        is_night_open=night is None or night.is_open(datetime.now(timezone.utc)),
    )
    try:
        return Figures(about, gauges.read(here.database))
    except (DatabaseUnavailable, SchemaOutdated):
        return Figures(about, None)


def _disk(folder: Path) -> Disk:
    """Of the nearest folder that is there."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    return Disk(size_bytes=usage.total, free_bytes=usage.free)
