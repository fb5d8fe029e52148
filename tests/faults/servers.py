"""A PostgreSQL and a Valkey that a test may kill, empty and stop as it likes."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnai.services import sockets
from omnai.services.postgres import Postgres
from omnai.services.valkey import Valkey
from pipeline.ledger.migrate import upgrade

IMMEDIATE = ((signal.SIGQUIT, 20.0), (signal.SIGKILL, 5.0))
"""PostgreSQL's immediate shutdown: no session is told, and the next start recovers."""

KILLED = ((signal.SIGKILL, 10.0),)


class Servers:
    """Both belong to one test module, which starts what it has ended before it leaves a test."""

    def __init__(self, root: Path) -> None:
        folder = sockets.folder_of(root)
        sockets.prepare(folder)
        self.postgres = Postgres(root, folder, is_durable=False)
        self.valkey = Valkey(root, folder, is_durable=False)

    def start(self) -> None:
        self.postgres.start()
        self.valkey.start()

    def stop(self) -> None:
        self.valkey.server.stop(KILLED)
        self.postgres.server.stop(IMMEDIATE)

    def end_postgres(self) -> None:
        self.postgres.server.stop(IMMEDIATE)

    def end_valkey(self) -> None:
        """Killed; what it had taken is in its append-only file."""
        self.valkey.server.stop(KILLED)

    def lose_valkey(self) -> None:
        """As a volume that is gone."""
        self.end_valkey()
        shutil.rmtree(self.valkey.data)


@contextmanager
def own_servers(root: Path) -> Iterator[Servers]:
    root.mkdir(mode=0o700, exist_ok=True)
    servers = Servers(root)
    servers.start()
    try:
        upgrade(servers.postgres.url)
        yield servers
    finally:
        servers.stop()
