"""PostgreSQL and Valkey under one folder, shared by the commands of one user."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omnai.services import sockets
from omnai.services.errors import RootUnusable, ServicesError
from omnai.services.lock import exclusive, opened, try_lock
from omnai.services.postgres import Postgres
from omnai.services.status import ServicesStatus
from omnai.services.valkey import Valkey

GATE_WAIT_S = 180.0
"""Longer than a start that recovers a database, which is the longest thing done behind the gate."""


class EmbeddedServices:
    """Starts and stops the two servers in `root`, which belongs to the calling user alone.

    Any number of processes may call any method at any time: what changes something is done by one
    of them at a time (`gate.lock`), and each `in_use` block holds a share of `users.lock` while it
    lasts, which the system takes back from a process that is killed. `start`, `stop` and `in_use`
    raise ServicesError; `status` changes nothing, and reports a problem instead of raising it.

    `is_durable=False` is for tests: commits are not flushed to disk, and a power cut loses them.
    """

    def __init__(self, root: Path, *, is_durable: bool = True) -> None:
        self.root = root.absolute().resolve()
        self.sockets = sockets.folder_of(self.root)
        self._postgres = Postgres(self.root, self.sockets, is_durable=is_durable)
        self._valkey = Valkey(self.root, self.sockets, is_durable=is_durable)
        self._gate_file = self.root / "gate.lock"
        self._users_file = self.root / "users.lock"
        self._kept_file = self.root / "kept"

    def start(self, *, keep: bool = False) -> ServicesStatus:
        """Start what is not running; with `keep`, both stay until `stop`. Idempotent."""
        with self._gate():
            self._start()
            if keep:
                self._kept_file.touch()
        return self.status()

    def stop(self) -> ServicesStatus:
        """Stop both, whoever started them. Idempotent.

        While a command uses them they go on, no longer kept, and stop when the last command ends.
        """
        if not self.root.exists():
            return self.status()
        with self._gate():
            self._kept_file.unlink(missing_ok=True)
            self._stop_unless_used()
        return self.status()

    def status(self) -> ServicesStatus:
        return ServicesStatus(
            postgres=self._postgres.status(),
            valkey=self._valkey.status(),
            is_kept=self._kept_file.exists(),
        )

    @contextmanager
    def in_use(self) -> Iterator[ServicesStatus]:
        """Have both running inside the block; the last user to leave stops them unless kept."""
        self._prepare_root()
        with opened(self._users_file) as share:
            with self._gate():
                fcntl.flock(share, fcntl.LOCK_SH)
                try:
                    self._start()
                except BaseException:
                    fcntl.flock(share, fcntl.LOCK_UN)
                    with suppress(ServicesError):  # the first error says more
                        self._leave()
                    raise
            try:
                yield self.status()
            finally:
                fcntl.flock(share, fcntl.LOCK_UN)
                with self._gate():
                    self._leave()

    def _start(self) -> None:
        if not (self._postgres.server.is_running() or self._valkey.server.is_running()):
            self._kept_file.unlink(missing_ok=True)  # of a boot that is over
        try:
            sockets.prepare(self.sockets)
            self._postgres.start()
            self._valkey.start()
        except OSError as error:
            raise RootUnusable(self.root, _reason(error)) from error

    def _leave(self) -> None:
        if not self._kept_file.exists():
            self._stop_unless_used()

    def _stop_unless_used(self) -> None:
        with opened(self._users_file) as users:
            if not try_lock(users, fcntl.LOCK_EX):
                return
            self._valkey.stop()
            self._postgres.stop()

    @contextmanager
    def _gate(self) -> Iterator[None]:
        self._prepare_root()
        with exclusive(self._gate_file, wait_s=GATE_WAIT_S):
            yield

    def _prepare_root(self) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = self.root.stat().st_uid
            if owner != os.geteuid():
                raise RootUnusable(
                    self.root,
                    f"it belongs to user {owner} and you are user {os.geteuid()}; its servers run "
                    "as its owner. Run this as that user, or choose another data folder.",
                )
            self._close_to_others()
            with opened(self._gate_file), opened(self._users_file):
                pass
        except OSError as error:
            raise RootUnusable(self.root, _reason(error)) from error

    def _close_to_others(self) -> None:
        if not self.root.stat().st_mode & 0o077:
            return
        if any(self.root.iterdir()) and not self._gate_file.exists():
            raise RootUnusable(self.root, "it holds something else, which others may enter.")
        self.root.chmod(0o700)


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}."
