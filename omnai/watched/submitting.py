"""One finished file to one job: read, sent and submitted under a key that its bytes give."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from omnai import display
from omnai.client import ApiFailed, ApiUnreachable, Client
from omnai.sending import PASSING
from omnai.watched.entries import Stamp
from pipeline.errors import InputRefused, Problem

READ_BYTES = 1 << 20

OF_ALL_FILES = frozenset(
    {"key_missing", "key_refused", "role_refused", "not_found", "method_refused"}
)
"""Refusals of an upload that the next file would meet too."""

OF_THE_MOMENT = PASSING | {"idempotency_in_flight", "upload_gone", "upload_unknown"}
"""Also an upload that was given up, or expired, while its sender was away."""

OF_THE_FILE = (
    *("/recording_id", "/options/start_s"),
    *("/options/audio_stream", "/options/video_stream"),
)
"""What of a submission a file decides; all else is the request's own."""


class Later(Exception):
    """No file can be submitted now; the message says why."""


class Unreadable(Exception):
    """This file cannot be read now: a copying program may keep others out, or it is not ours."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"it cannot be read ({error.strerror})")


class Unfinished(Exception):
    """The file is still being written to."""


class Refused(Exception):
    """The file will not be taken as it is."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.message for problem in problems))


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What is asked of every recording of the folder."""

    holdings: Callable[[], list[dict[str, Any]]]
    """Read anew for each: a portfolio changes while its folder is watched."""
    request: dict[str, Any]


@contextmanager
def opened(path: Path, stamp: Stamp) -> Iterator[BinaryIO]:
    """The file itself and nothing that a link leads to. Raises Unfinished, Unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unfinished from None
    except OSError as error:
        raise Unreadable(error) from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unfinished
        check_unchanged(file, stamp)
        yield file


def check_unchanged(file: BinaryIO, stamp: Stamp) -> None:
    """Raises Unfinished."""
    if Stamp.of(os.fstat(file.fileno())) != stamp:
        raise Unfinished


class Steady(io.RawIOBase):
    """A file that is read only as long as it stays as it was. Raises Unfinished."""

    def __init__(self, file: BinaryIO, stamp: Stamp) -> None:
        self._file = file
        self._stamp = stamp

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        check_unchanged(self._file, self._stamp)
        return self._file.read(size)


def digest_of(file: BinaryIO, stamp: Stamp) -> str:
    """Raises Unfinished where the file changes under it, Unreadable."""
    digest = hashlib.sha256()
    file.seek(0)
    try:
        while part := file.read(READ_BYTES):
            digest.update(part)
    except OSError as error:
        raise Unreadable(error) from error
    check_unchanged(file, stamp)
    return digest.hexdigest()


def submit(
    client: Client, ask: Ask, file: BinaryIO, stamp: Stamp, *, name: str, sha256: str
) -> str:
    """The job's id; safe to repeat.

    Raises Refused, Later, Unfinished, Unreadable, and InputRefused for what no file can help.
    """
    try:
        holdings = ask.holdings()
    except (InputRefused, OSError) as error:
        raise Later(f"the portfolio cannot be used: {error}") from error
    recording = _sent(client, file, stamp, name)
    if recording["sha256"] != sha256:
        raise Unfinished
    submission = {"recording_id": recording["id"], "portfolio": holdings, **ask.request}
    with _answers(is_of_file=_is_of_file):
        job = client.submit(submission, key=key_of(sha256, submission))
    return str(job["id"])


def key_of(sha256: str, submission: dict[str, Any]) -> str:
    """The same for the same bytes and the same request, whoever asks and how often."""
    told = json.dumps([sha256, submission], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _sent(client: Client, file: BinaryIO, stamp: Stamp, name: str) -> dict[str, Any]:
    source = cast(BinaryIO, Steady(file, stamp))
    with (
        display.BytesProgress(f"sending {display.seen(name)}", stamp.size_bytes) as progress,
        _answers(is_of_file=lambda refused: refused.problems[0].code not in OF_ALL_FILES),
    ):
        try:
            return client.upload_open(source, name, progress.advance)
        except OSError as error:
            raise Unreadable(error) from error


@contextmanager
def _answers(*, is_of_file: Callable[[InputRefused], bool]) -> Iterator[None]:
    try:
        yield
    except (ApiUnreachable, ApiFailed) as error:
        raise Later(error.message) from error
    except InputRefused as refused:
        if refused.problems[0].code in OF_THE_MOMENT:
            raise Later(refused.message) from refused
        if is_of_file(refused):
            raise Refused(refused.problems) from refused
        raise


def _is_of_file(refused: InputRefused) -> bool:
    return all(problem.where in OF_THE_FILE for problem in refused.problems)
