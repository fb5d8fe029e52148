"""What has become of each file, in a file of the folder itself, so that it goes where they go."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omnai.watched.entries import Stamp
from pipeline.errors import InputRefused, Problem
from pipeline.files import write_whole
from pipeline.plain import from_plain, to_plain

NAME = ".omnai-watch.json"

LOCK_NAME = ".omnai-watch.lock"

FORM = "omnai.watch/1"

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file that has been dealt with."""

    stamp: Stamp
    sha256: str
    job_id: str | None
    """None where it was refused."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """All of them by name."""

    form: str
    files: dict[str, Entry]

    def job_of(self, sha256: str) -> tuple[str, str] | None:
        """The name and job under which these bytes were submitted."""
        for name, entry in self.files.items():
            if entry.sha256 == sha256 and entry.job_id is not None:
                return name, entry.job_id
        return None

    def having(self, name: str, entry: Entry) -> Memory:
        return replace(self, files={**self.files, name: entry})


def load(folder: Path) -> Memory:
    """What is written there now: nothing, where no file is. Raises InputRefused, OSError."""
    try:
        text = (folder / NAME).read_text("ascii")
    except FileNotFoundError:
        return Memory(form=FORM, files={})
    except UnicodeDecodeError as error:
        raise _unreadable(folder) from error
    try:
        memory = from_plain(Memory, json.loads(text), is_from_later=True)
    except ValueError as error:
        raise _unreadable(folder) from error
    if memory.form != FORM:
        raise _unreadable(folder)
    return memory


def save(folder: Path, memory: Memory) -> None:
    """Lets OSError through."""
    write_whole(folder / NAME, (json.dumps(to_plain(memory), indent=1) + "\n").encode("ascii"))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody else watches the folder while in the block.

    Where a share knows no locks, the key that each submission carries is what keeps it to one job.
    Raises InputRefused where somebody does, OSError where nothing can be written there.
    """
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputRefused(
                Problem(
                    code="folder_watched",
                    where=str(folder),
                    message="another `omnai watch` watches this folder; one at a time can",
                )
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)


def _unreadable(folder: Path) -> InputRefused:
    return InputRefused(
        Problem(
            code="watch_memory_unreadable",
            where=str(folder / NAME),
            message="it is not what `omnai watch` writes; put it right, or remove it to have every"
            " file of the folder submitted again",
        )
    )
