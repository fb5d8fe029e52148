"""Whether a process that began something is still there: a lock that goes with its connection."""

from __future__ import annotations

import os
import secrets
import threading
import uuid

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

TOKEN_BITS = 48

_FAMILY = 0x4F4D << TOKEN_BITS
"""Keeps these locks apart from other advisory locks of the same database; stays below 2^63."""

_OURS = "8"
"""The version digit of a name that carries a token (RFC 9562: one whose content is our own)."""


class Presence:
    """Holds the lock of one process on a connection of its own; safe for its threads.

    The server drops the lock with the connection, as soon as it sees that the process is gone. A
    connection that is lost while the process lives makes it look gone: whoever relies on this must
    refuse the one that was taken for gone.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._pid = 0
        self._token = 0

    def name(self) -> str:
        """A new UUID by which others can tell whether this process is there.

        Raises the driver's errors; call it where they are translated.
        """
        with self._guard:
            if not self._is_held():
                self._hold()
            digits = uuid.uuid4().hex
            return str(uuid.UUID(hex=f"{self._token:012x}{_OURS}{digits[13:]}"))

    def close(self) -> None:
        with self._guard:
            self._drop()

    def _is_held(self) -> bool:
        if self._connection is None or self._pid != os.getpid():
            return False
        try:
            self._connection.execute(select(1))
        except DBAPIError:
            return False
        return True

    def _hold(self) -> None:
        self._drop()
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # one of the pool's would be missing to the requests
        token = secrets.randbits(TOKEN_BITS)
        connection.execute(select(func.pg_advisory_lock(_FAMILY | token)))
        self._connection, self._token, self._pid = connection, token, os.getpid()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()


def is_gone(session: Session, name: str) -> bool:
    """Whether the process that made this name is known to be gone; no other name says so."""
    digits = uuid.UUID(name).hex
    if digits[12] != _OURS:
        return False
    token = int(digits[:12], 16)
    taken = session.execute(select(func.pg_try_advisory_xact_lock(_FAMILY | token))).scalar_one()
    return bool(taken)
