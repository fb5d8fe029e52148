"""What every test may use: a private database, a private queue, and no network."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from omnai.services import EmbeddedServices, ServicesStatus

DATABASE_SETTING = "OMNAI_TEST_DATABASE_URL"
"""A PostgreSQL of your own: the tests make databases in it and drop them."""

VALKEY_SETTING = "OMNAI_TEST_VALKEY_URL"
"""A Redis or Valkey of your own: the tests write to the database that it names."""


def pytest_configure() -> None:
    # A terminated run stops its servers as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServicesStatus]:
    """Servers of this test run alone, thrown away after it."""
    root = tmp_path_factory.mktemp("services")
    with EmbeddedServices(root, is_durable=False).in_use() as status:
        yield status


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database on a server where more may be made."""
    url = os.environ.get(DATABASE_SETTING) or request.getfixturevalue("services").postgres.url
    yield from _database(url, template="template1")


@pytest.fixture(scope="session")
def valkey_url(request: pytest.FixtureRequest) -> str:
    url = os.environ.get(VALKEY_SETTING) or request.getfixturevalue("services").valkey.url
    return str(url)


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """An S3-compatible server of this test run, and credentials in the environment."""
    from tests.bucket import CREDENTIALS, serving

    with pytest.MonkeyPatch.context() as patched, serving() as url:
        for name, value in CREDENTIALS.items():
            patched.setenv(name, value)
        yield url


@pytest.fixture(scope="session")
def migrated_template(postgres_url: str) -> Iterator[str]:
    """The name of a database with all migrations; a copy of it takes a twentieth of a second."""
    from pipeline.ledger.migrate import upgrade

    for url in _database(postgres_url, template="template1"):
        upgrade(url)
        yield _name(url)


@pytest.fixture
def database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    """An empty migrated database of this test alone."""
    yield from _database(postgres_url, template=migrated_template)


@pytest.fixture(scope="module")
def module_database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    """An empty migrated database of this module's tests together."""
    yield from _database(postgres_url, template=migrated_template)


def _database(server_url: str, *, template: str) -> Iterator[str]:
    name = f"omnai_test_{uuid.uuid4().hex[:12]}"
    _execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        url = sqlalchemy.make_url(server_url).set(database=name)
        yield url.render_as_string(hide_password=False)
    finally:
        _execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _execute(url: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(
        url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool
    )
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(statement))


def _name(url: str) -> str:
    name = sqlalchemy.make_url(url).database
    assert name is not None
    return name


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to anything but this machine."""
    connect: Callable[[socket.socket, Any], None] = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1"):
            pytest.fail(f"a test wanted to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def _no_error_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An ERROR log fails the test; one that expects it calls `caplog.clear()` after its check."""
    yield
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not errors, [record.getMessage() for record in errors]


@pytest.fixture(autouse=True)
def _no_log_kept() -> Iterator[None]:
    """A command that runs in this process sets up the log as a process of its own would."""
    hooks = sys.excepthook, threading.excepthook
    yield
    root = logging.getLogger()
    ours = [handler for handler in root.handlers if type(handler).__module__ == "pipeline.journal"]
    for handler in ours:
        root.removeHandler(handler)
        root.setLevel(logging.WARNING)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook = hooks


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parent.parent
