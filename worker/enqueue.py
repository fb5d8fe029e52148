"""The bell: says that there may be work. The one part of the worker that the API may import."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from kombu.exceptions import KombuError
from redis import RedisError

from pipeline.settings import Settings
from worker.app import QUEUE, TASK, make_app

if TYPE_CHECKING:
    from celery import Celery  # type: ignore[import-untyped]

WAIT_S = 1.0
"""A request waits for the broker at most a few times this; the dispatcher rings again anyway."""

log = logging.getLogger(__name__)


def ring(settings: Settings) -> bool:
    """Ask any worker to look for work; return whether the bell was taken.

    It carries no id, so that a lost, repeated or late one is harmless. Call it after the commit.
    Never raises for a broker that is away, silent or full.
    """
    try:
        _app(settings).send_task(TASK, queue=QUEUE, ignore_result=True)
    except (KombuError, RedisError, OSError) as error:
        log.warning(
            "The bell did not ring; the dispatcher will.",
            extra={"action": "bell_failed", "error": type(error).__name__},
        )
        return False
    return True


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
