"""The bell: says that there may be work. The one part of the worker that the API may import."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from kombu.exceptions import KombuError
from redis import RedisError

from pipeline.errors import OmnaiError
from pipeline.ledger import jobs, tallies
from pipeline.ledger.database import Database
from pipeline.ledger.tallies import Tally
from pipeline.settings import Settings
from worker.app import TASK, make_app, queue_name

if TYPE_CHECKING:
    from celery import Celery  # type: ignore[import-untyped]

WAIT_S = 1.0
"""A request waits for the broker at most a few times this; the dispatcher rings again anyway."""

log = logging.getLogger(__name__)


def ring(settings: Settings, *, engine: str | None = None) -> bool:
    """Ask any worker of an engine to look for work; return whether the bell was taken.

    The engine is the job's; none is the one that these settings name. A bell carries no id, so
    that a lost, repeated or late one is harmless. Call it after the commit. Never raises for a
    broker that is away, silent or full.
    """
    queue = queue_name(settings.engine if engine is None else engine)
    app = _app(settings)
    try:
        app.send_task(TASK, queue=queue, ignore_result=True)
    except (KombuError, RedisError, OSError, AttributeError) as error:
        # A channel that kombu closed while it connected again has no client; another would not help
        # whoever still holds it, so that the next bell gets an app, and so connections, of its own.
        _app.cache_clear()
        app.close()
        log.warning(
            "The bell did not ring; the dispatcher will.",
            extra={"action": "bell_failed", "error": type(error).__name__},
        )
        return False
    return True


def ring_for(settings: Settings, database: Database, job_id: str) -> bool:
    """Ask any worker of the job's engine; as `ring`, and never raises for a database either."""
    try:
        engine = jobs.engine_of(database, job_id)
    except OmnaiError as error:
        log.warning(
            "The bell did not ring; the dispatcher will.",
            extra={"action": "bell_failed", "job_id": job_id, "code": error.code},
        )
        return False
    if ring(settings, engine=engine):
        return True
    tallies.add(database, Tally.BELLS_FAILED)
    return False


@functools.lru_cache(maxsize=4)
def _app(settings: Settings) -> Celery:
    """One app, and so one pool of connections, for all bells of a process."""
    app = make_app(settings)
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "socket_timeout": WAIT_S,
        "socket_connect_timeout": WAIT_S,
    }
    return app
