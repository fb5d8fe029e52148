"""Upstream's small files at their pinned revisions: fetched or read, compared, and parsed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pipeline.engine.minicpm.contracts import DECODER, MODEL, check_contracts
from pipeline.engine.minicpm.lock import Host, LockedFile, ModelLock
from pipeline.errors import Problem

if TYPE_CHECKING:
    import httpx

PUBLISHED: Mapping[Host, str] = {
    Host.HUB: "https://huggingface.co/{repository}/resolve/{revision}/{path}",
    Host.GITHUB: "https://raw.githubusercontent.com/{repository}/{revision}/{path}",
}

FILE_BYTES_MAX = 32 * 1024 * 1024
"""The vocabulary has about 11 MB, everything else less than half of one; weights have gigabytes."""

FILE_S = 60.0
"""Longest wall time for one file, its redirects included."""

IDLE_S = 15.0

REDIRECTS_MAX = 3
"""The hub sends larger files from another host."""

LOOPBACK = ("127.0.0.1", "::1")


class Standing(str, Enum):
    """What is known of a file after a check."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    """It is there, and nobody has recorded what it must be."""
    MISMATCH = "mismatch"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """One locked file as it was found."""

    file: LockedFile
    standing: Standing
    sha256: str | None
    size_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """What was found; without problems the adapter may rely on it."""

    files: tuple[CheckedFile, ...]
    problems: tuple[Problem, ...]
    """Missing and mismatching files, and broken contracts."""

    @property
    def is_verified(self) -> bool:
        """Nothing is wrong and nothing is unknown."""
        return not self.problems and all(f.standing is Standing.VERIFIED for f in self.files)


def check_snapshot(lock: ModelLock, folder: Path) -> SourceReport:
    """Whatever of the lock belongs in a snapshot, without network. Lets OSError through."""
    contents = read_snapshot(lock, folder)
    missing = [
        _problem(file, "file_missing", "it is not in the folder")
        for file in lock.of_snapshot
        if file not in contents
    ]
    wanted = [*lock.of_snapshot, *(file for file in _card(lock) if file in contents)]
    return _checked(lock, wanted, contents, missing)


def check_published(lock: ModelLock, *, published: Mapping[Host, str] = PUBLISHED) -> SourceReport:
    """Every locked file as its host gives it; no weights, no credentials."""
    contents, problems = fetch(lock.every_file, published=published)
    return _checked(lock, lock.every_file, contents, problems)


def read_snapshot(lock: ModelLock, folder: Path) -> dict[LockedFile, bytes]:
    """The locked files that the folder has. Lets OSError through."""
    return {
        file: (folder / file.path).read_bytes()
        for file in [*lock.of_snapshot, *_card(lock)]
        if (folder / file.path).is_file()
    }


def fetch(
    files: Iterable[LockedFile], *, published: Mapping[Host, str] = PUBLISHED
) -> tuple[dict[LockedFile, bytes], list[Problem]]:
    """Each file's bytes, and a problem for each that did not come.

    Over https alone, within limits of size and time; nothing of this machine's credentials is
    sent, whatever the environment holds.
    """
    import httpx

    contents: dict[LockedFile, bytes] = {}
    problems: list[Problem] = []
    # Only proxies are of the environment: no header, cookie or password of a user's files.
    with httpx.Client(timeout=IDLE_S, headers={"Accept-Encoding": "identity"}) as client:
        for file in files:
            template = published[file.host]
            address = template.format(
                repository=file.repository, revision=file.revision, path=quote(file.path)
            )
            try:
                contents[file] = _get(client, httpx.URL(address))
            except _NotFetched as error:
                problems.append(_problem(file, error.code, str(error)))
            except httpx.HTTPError as error:
                reason = f"its host cannot be reached ({type(error).__name__})"
                problems.append(_problem(file, "source_unreachable", reason))
    return contents, problems


class _NotFetched(Exception):
    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def _get(client: httpx.Client, url: httpx.URL) -> bytes:
    deadline = time.monotonic() + FILE_S
    is_here = url.host in LOOPBACK
    for _ in range(REDIRECTS_MAX + 1):
        if url.scheme != "https" and not (is_here and url.host in LOOPBACK):
            raise _NotFetched("source_refused", "its host leads to an address without encryption")
        with client.stream("GET", url) as answer:
            if answer.has_redirect_location:
                url = url.join(answer.headers["Location"])
                continue
            if answer.status_code == 404:
                raise _NotFetched("file_missing", "its host has no such file at this revision")
            if answer.status_code != 200:
                reason = f"its host answered with status {answer.status_code}"
                raise _NotFetched("source_unreachable", reason)
            return _body(answer, deadline)
    raise _NotFetched("source_refused", f"more than {REDIRECTS_MAX} redirects")


def _body(answer: httpx.Response, deadline: float) -> bytes:
    body = bytearray()
    for part in answer.iter_bytes():
        body += part
        if len(body) > FILE_BYTES_MAX:
            reason = f"it is larger than {FILE_BYTES_MAX} bytes, the most that is fetched"
            raise _NotFetched("source_refused", reason)
        if time.monotonic() > deadline:
            raise _NotFetched("source_unreachable", f"it did not come within {FILE_S:g} s")
    return bytes(body)


def _card(lock: ModelLock) -> tuple[LockedFile, ...]:
    """References that a snapshot holds too."""
    return tuple(
        file
        for file in lock.references
        if (file.host, file.repository, file.revision) == (Host.HUB, lock.repository, lock.revision)
    )


def _checked(
    lock: ModelLock,
    files: Iterable[LockedFile],
    contents: Mapping[LockedFile, bytes],
    problems: Iterable[Problem],
) -> SourceReport:
    checked = tuple(_stand(file, contents.get(file)) for file in files)
    wrong = [
        _problem(found.file, "file_mismatch", f"it has sha256 {found.sha256}, not the locked one")
        for found in checked
        if found.standing is Standing.MISMATCH
    ]
    texts = {
        file.path: contents[file].decode("utf-8", "replace")
        for file in lock.sources
        if file in contents and file.path in (MODEL, DECODER)
    }
    return SourceReport(files=checked, problems=(*problems, *wrong, *check_contracts(texts)))


def _stand(file: LockedFile, content: bytes | None) -> CheckedFile:
    if content is None:
        return CheckedFile(file=file, standing=Standing.MISSING, sha256=None, size_bytes=None)
    sha256, size_bytes = hashlib.sha256(content).hexdigest(), len(content)
    standing = Standing.UNVERIFIED
    if file.fingerprint is not None:
        is_same = (file.fingerprint.sha256, file.fingerprint.size_bytes) == (sha256, size_bytes)
        standing = Standing.VERIFIED if is_same else Standing.MISMATCH
    return CheckedFile(file=file, standing=standing, sha256=sha256, size_bytes=size_bytes)


def _problem(file: LockedFile, code: str, message: str) -> Problem:
    where = f"{file.repository}@{file.revision[:12]} {file.path}"
    return Problem(code=code, where=where, message=message)
