"""The way to PostgreSQL: one pool, short waits, and errors that name no address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

from pipeline.errors import OmnaiError, Problem, SettingsRefused
from pipeline.ledger.errors import (
    DatabaseFull,
    DatabaseUnavailable,
    LedgerRefused,
    SchemaOutdated,
)
from pipeline.ledger.presence import Presence

DRIVER = "postgresql+psycopg"

CONNECT_TIMEOUT_S = 5
POOL_TIMEOUT_S = 10
STATEMENT_TIMEOUT_MS = 60_000
"""The heaviest statement reads the units of a twelve-hour recording, in well under a second."""
LOCK_TIMEOUT_MS = 15_000
"""Locks are held for one small transaction; a longer wait means that something is stuck."""
IDLE_IN_TRANSACTION_MS = 60_000
"""A stopped process must not keep an epoch's row locked against the reaper for long."""

_DISK_FULL = "53100"
_WITHOUT_TABLES = ("42P01", "42703")
_PASSING = ("08", "25006", "40", "53", "55P03", "57", "58")
"""Connection, read-only after a failover, deadlock, resources, lock wait, shutdown and timeout, the
server's own disk: the same may succeed later."""


Transaction = Session
"""One that is open; for whoever hands it on and has no business with what is inside."""


class Database:
    """A pool of connections; one per process, shared by its threads, closed by `dispose`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions = sessionmaker(engine, expire_on_commit=False)
        self._presence = Presence(engine)

    @contextmanager
    def transaction(self, *, is_snapshot: bool = False) -> Iterator[Session]:
        """One transaction: committed at the end of the block, rolled back when it raises.

        A snapshot sees the database as of its first statement throughout. Raises
        DatabaseUnavailable (where it strikes the commit, the outcome is unknown: every write of the
        ledger may be repeated), DatabaseFull, SchemaOutdated or LedgerRefused.
        """
        with translated_errors(), self._sessions.begin() as session:
            if is_snapshot:
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    def present(self) -> str:
        """A new UUID; `presence.is_gone` says of it whether this process is there no more."""
        with translated_errors():
            return self._presence.name()

    def dispose(self) -> None:
        self._presence.close()
        self._engine.dispose()


def connect(url: str) -> Database:
    """Raises SettingsRefused for a URL of another kind; connects with the first transaction."""
    return Database(
        create_engine(
            parse_url(url),
            pool_pre_ping=True,
            pool_timeout=POOL_TIMEOUT_S,
            # Statements and errors end up in logs, and parameters are what the analyst wrote.
            hide_parameters=True,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
                "application_name": "omnai",
                "options": " ".join(
                    f"-c {name}={value}"
                    for name, value in (
                        ("timezone", "UTC"),
                        ("statement_timeout", STATEMENT_TIMEOUT_MS),
                        ("lock_timeout", LOCK_TIMEOUT_MS),
                        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_MS),
                    )
                ),
            },
        )
    )


def parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.drivername != DRIVER:
        problem = Problem(
            code="database_url",
            where="OMNAI_DATABASE_URL",
            message=f"not a URL that begins with {DRIVER}://; it is not shown in case it is secret",
        )
        raise SettingsRefused(problem)
    return parsed


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn the driver's errors into ours, without their text, which may carry stored values."""
    try:
        yield
    except PoolTimeout:
        raise DatabaseUnavailable(
            f"no database connection was free within {POOL_TIMEOUT_S} s"
        ) from None
    except DBAPIError as error:
        raise _translate(error) from None


def _translate(error: DBAPIError) -> OmnaiError:
    sqlstate: str | None = getattr(error.orig, "sqlstate", None)
    if sqlstate is None:
        if isinstance(error, (OperationalError, InterfaceError)) or error.connection_invalidated:
            return DatabaseUnavailable()
        return LedgerRefused(constraint=None, sqlstate=None)
    if sqlstate == _DISK_FULL:
        return DatabaseFull()
    if sqlstate.startswith(_PASSING) or error.connection_invalidated:
        return DatabaseUnavailable(f"{DatabaseUnavailable.__doc__} (SQLSTATE {sqlstate})")
    if sqlstate in _WITHOUT_TABLES:
        return SchemaOutdated()
    diagnosis = getattr(error.orig, "diag", None)
    return LedgerRefused(constraint=getattr(diagnosis, "constraint_name", None), sqlstate=sqlstate)
