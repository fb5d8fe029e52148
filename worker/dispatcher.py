"""Rings for queued work that no bell is waiting for: the one that was lost, or never rang."""

from __future__ import annotations

import logging

import redis

from pipeline.ledger import claims, epochs, tallies
from pipeline.ledger.database import Database
from pipeline.ledger.tallies import Tally
from pipeline.settings import Settings
from worker.app import queue_name
from worker.enqueue import WAIT_S, ring
from worker.room import has_room
from worker.slot import slot_name

PERIOD_S = 5.0
"""A lost bell delays a job by at most this."""

log = logging.getLogger(__name__)


def dispatch(database: Database, settings: Settings) -> bool:
    """Ring where this slot is free, something waits for its engine and no bell does.

    Return whether it rang. It reads the database and counts: what runs is none of its business.
    """
    if claims.waiting(database, engine=settings.engine, night=settings.window) == 0:
        return False
    if not has_room(settings):
        tallies.add(database, Tally.REFUSED_SPACE)
        return False
    if epochs.unreleased(database, slot=slot_name(settings)):
        return False
    if _is_bell_waiting(settings) or not ring(settings):
        return False
    tallies.add(database, Tally.BELLS_RERUNG)
    log.info("Rang for queued work.", extra={"action": "rering"})
    return True


def _is_bell_waiting(settings: Settings) -> bool:
    assert settings.redis_url is not None
    try:
        with redis.Redis.from_url(
            settings.redis_url, socket_timeout=WAIT_S, socket_connect_timeout=WAIT_S
        ) as client:
            return int(client.llen(queue_name(settings.engine))) > 0
    except redis.RedisError:
        return False  # the bell itself will say that the broker is away
