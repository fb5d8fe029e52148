"""News of jobs, as the database tells it: which one changed, once the change is committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

import psycopg

from pipeline.ledger.database import CONNECT_TIMEOUT_S, parse_url

CHANNEL = "omnai_jobs"
"""As in the triggers of migration 0002."""

EVERY_JOB = "*"
"""Comes in a job id's place when listening begins, again too: anything may have changed before."""

QUIET_S = 5.0
"""How long nothing may come before the caller gets a turn."""

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0
"""Longest pause between two tries to connect; a returning database is not stormed."""

_log = logging.getLogger(__name__)


@contextmanager
def listen(url: str, *, quiet_s: float = QUIET_S) -> Iterator[Iterator[str | None]]:
    """Ids of jobs as they change, for ever; none at least every `quiet_s`, so that one may leave.

    On a connection of its own, which comes back after an outage by itself: `EVERY_JOB` says when it
    has. While it is away there is only none. A change may be told twice, never before its commit.
    Raises SettingsRefused for a URL of another kind.
    """
    with closing(_changes(_connection_words(url), quiet_s)) as changes:
        yield changes


def _changes(words: dict[str, object], quiet_s: float) -> Generator[str | None, None, None]:
    pause_s = BACKOFF_FIRST_S
    while True:
        try:
            with _connected(words) as connection:
                connection.execute(f"LISTEN {CHANNEL}")
                if pause_s != BACKOFF_FIRST_S:
                    _log.info("listening again", extra={"action": "changes_back"})
                    pause_s = BACKOFF_FIRST_S
                yield EVERY_JOB
                while True:
                    for notice in connection.notifies(timeout=quiet_s):
                        yield notice.payload
                    yield None
        except psycopg.Error as error:
            if pause_s == BACKOFF_FIRST_S:
                # The driver's text may name the server's address.
                kind = type(error).__name__
                _log.warning("not listening", extra={"action": "changes_away", "error": kind})
        yield from _waited(pause_s, quiet_s)
        pause_s = min(pause_s * 2, BACKOFF_MAX_S)


def _connected(words: dict[str, object]) -> closing[psycopg.Connection]:
    return closing(psycopg.connect(autocommit=True, **words))  # type: ignore[arg-type]


def _waited(pause_s: float, quiet_s: float) -> Iterator[None]:
    until = time.monotonic() + pause_s
    while (left_s := until - time.monotonic()) > 0:
        time.sleep(min(left_s, quiet_s))
        yield None


def _connection_words(url: str) -> dict[str, object]:
    parsed = parse_url(url)
    _, given = parsed.get_dialect()().create_connect_args(parsed)
    return {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "application_name": "omnai-changes",
        **given,
    }
