"""Puts the application together: stores, routes, access, errors and headers."""

from __future__ import annotations

from collections.abc import Collection

from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI

from api import (
    access,
    answers,
    briefs,
    epochs,
    errors,
    frames,
    health,
    jobs,
    media,
    metrics,
    night,
    notes,
    openapi,
    pages,
    parameters,
    queue,
    recordings,
    retention,
    schemas,
    search,
    session,
    texts,
    tus,
    units,
    uploads,
)
from api.admission import Admission
from api.digests import Digests
from api.limits import JSON_BYTES_MAX
from api.readiness import Readiness
from api.secret import secret_key
from api.service import EXTENSION, Service
from api.waiting import Watcher
from pipeline.errors import Problem, SettingsRefused
from pipeline.ledger.database import connect
from pipeline.ledger.storage import open_storage
from pipeline.release import RELEASE
from pipeline.settings import Settings

BLUEPRINTS = (
    recordings.blueprint,
    tus.blueprint,
    media.blueprint,
    jobs.blueprint,
    retention.blueprint,
    epochs.blueprint,
    queue.blueprint,
    night.blueprint,
    units.blueprint,
    texts.blueprint,
    notes.blueprint,
    search.blueprint,
    frames.blueprint,
    briefs.blueprint,
    schemas.blueprint,
    health.blueprint,
    metrics.blueprint,
)


def build(settings: Settings, *, engines: Collection[str]) -> OpenAPI:
    app = OpenAPI(
        "api",
        info=Info(title="OmnAI", version=RELEASE),
        doc_ui=False,
        validation_error_callback=errors.validation_callback,
    )
    app.config.update(
        MAX_CONTENT_LENGTH=JSON_BYTES_MAX,
        # Links are relative to the host that was asked; no header of a client decides them.
        SECRET_KEY=secret_key(settings),
        SESSION_COOKIE_SAMESITE="Strict",
    )
    app.extensions[EXTENSION] = _service(settings, engines)
    errors.install(app)
    answers.install(app)
    app.register_blueprint(session.session)
    access.install(app)
    parameters.install(app)
    uploads.install(app)
    for blueprint in BLUEPRINTS:
        app.register_api(blueprint)
    app.register_blueprint(pages.pages)
    app.add_url_rule("/openapi.json", "openapi", openapi.serve)
    return app


def _service(settings: Settings, engines: Collection[str]) -> Service:
    if settings.database_url is None:
        raise SettingsRefused(
            Problem(
                code="database_missing",
                where="OMNAI_DATABASE_URL",
                message="the service needs a database; `omnai serve` starts an embedded one",
            )
        )
    storage = open_storage(settings)
    database = connect(settings.database_url)
    return Service(
        settings=settings,
        database=database,
        blobs=storage.blobs,
        frames=storage.frames,
        watcher=Watcher(settings.database_url, waiters_max=settings.waiters_max),
        admission=Admission(places=settings.intake_max, waiting_max=settings.intake_waiting_max),
        digests=Digests(),
        readiness=Readiness(settings, database),
        engines=engines,
        release=RELEASE,
        upload_bytes_max=settings.media.file_bytes,
    )
