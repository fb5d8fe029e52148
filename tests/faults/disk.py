"""A small disk that really fills up, for which no right is needed where the kernel lets everybody
make namespaces. Nothing is mounted for anybody else: one process keeps it, others go through that
process's `root` in /proc, and it is gone with the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from omnai.services.launcher import become
from tests.faults import mount
from tests.faults.servers import Servers
from tests.hosts import until

RELATIONS = """
    SELECT CASE relkind WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, relname FROM pg_class
      LEFT JOIN pg_tablespace ON pg_tablespace.oid = reltablespace
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
       AND coalesce(spcname, 'pg_default') = %(place)s
"""
"""Tables and indexes that lie in one place."""

LEAST_BYTES = 4096
"""Of no bytes at all the kernel makes as many as there are."""


@dataclass
class Disk:
    path: Path
    """As others see it."""
    bytes_max: int
    _process: subprocess.Popen[str]

    def fill(self) -> None:
        """Have it be no larger than what is on it."""
        # Somebody may have written to it since it was measured.
        until(lambda: self._resize(max(self.used_bytes(), LEAST_BYTES)))

    def make_room(self) -> None:
        assert self._resize(self.bytes_max)

    def used_bytes(self) -> int:
        found = os.statvfs(self.path)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def _resize(self, size_bytes: int) -> bool:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{size_bytes}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline() == mount.DONE


@contextmanager
def small_disk(bytes_max: int, *, owner: int) -> Iterator[Disk]:
    """For one user alone. Skips the test where the kernel refuses it."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", mount.__file__, str(owner), str(bytes_max)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if process.stdout.readline() != mount.MOUNTED:
                refusal = process.stderr.read().strip().rpartition("\n")[2]
                pytest.skip(f"a file system of its own cannot be mounted here: {refusal}")
            yield Disk(Path(f"/proc/{process.pid}/root{mount.PLACE}"), bytes_max, process)
        finally:
            process.kill()


def owner_of(servers: Servers) -> int:
    """Of PostgreSQL's files, which are never root's."""
    return servers.postgres.data.stat().st_uid


@contextmanager
def on_disk(disk: Disk, servers: Servers) -> Iterator[None]:
    """Every table and index of the database, in use as it is."""
    with servers.postgres._connect("omnai") as asked:

        def move(source: str, target: str) -> None:
            found = asked.execute(RELATIONS, {"place": source}).fetchall()
            for kind, name in found:
                asked.execute(f"ALTER {kind} {name} SET TABLESPACE {target}")

        asked.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
        move("pg_default", "small")
        try:
            yield
        finally:
            disk.make_room()
            move("small", "pg_default")
            asked.execute("DROP TABLESPACE small")


@contextmanager
def log_on(disk: Disk, servers: Servers) -> Iterator[None]:
    """What PostgreSQL writes before it writes anything else."""
    account = servers.postgres._account()
    folder = servers.postgres.data / "pg_wal"
    aside = folder.with_name("aside")

    def copy(source: Path, target: Path) -> None:
        subprocess.run(
            ["cp", "-a", f"{source}/.", target],
            check=True,
            preexec_fn=partial(become, account) if account else None,
        )

    servers.end_postgres()
    try:
        copy(folder, disk.path)
        with in_place_of(folder, disk.path, aside=aside):
            try:
                servers.postgres.start()
                yield
            finally:
                disk.make_room()
                servers.end_postgres()
                for path in aside.glob("0*"):
                    path.unlink()
                copy(disk.path, aside)
    finally:
        servers.postgres.start()


@contextmanager
def in_place_of(folder: Path, other: Path, *, aside: Path) -> Iterator[None]:
    """What is there waits aside."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.rename(aside)
    folder.symlink_to(other, target_is_directory=True)
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)
