"""What model this release runs: `model-lock.json`, and whether a folder holds exactly that."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.errors import InputRefused, OmnaiError, Problem
from pipeline.files import write_whole

LOCK_PATH = Path(__file__).resolve().parents[3] / "model-lock.json"

LOCK_FORMAT = 1

HASH_BYTES = 1 << 20

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REVISION = re.compile(r"[0-9a-f]{40}")

log = logging.getLogger(__name__)


class LockUnreadable(OmnaiError):
    """The model lock cannot be read."""

    code = "model_lock_unreadable"


class SnapshotRefused(InputRefused):
    """The folder is not the model that is locked; nothing of it was loaded."""

    code = "snapshot_refused"


class Host(str, Enum):
    """Where a locked file is published."""

    HUB = "hub"
    GITHUB = "github"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """When a fingerprint was taken, and from what."""

    at: str
    """ISO 8601, with its offset."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What a file's bytes must be; always with the word on where that is known from."""

    sha256: str
    size_bytes: int
    verified: Verification


@dataclass(frozen=True, kw_only=True)
class LockedFile:
    """One file at one revision."""

    host: Host
    repository: str
    revision: str
    path: str
    fingerprint: Fingerprint | None
    """None: nobody has verified this file yet."""


@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """How the model is run; the names are those of upstream's own parameters."""

    attn_implementation: str
    torch_dtype: str
    generate_audio: bool
    chunk_ms: int
    first_chunk_ms: int
    sample_rate: int
    sliding_window_mode: str
    basic_window_high_tokens: int
    basic_window_low_tokens: int
    force_listen_count: int
    batch_vision_feed: bool
    decode_mode: str
    temperature: float
    top_k: int
    top_p: float
    listen_prob_scale: float
    listen_top_k: int | None
    text_repetition_penalty: float
    text_repetition_window_size: int

    def duplex_arguments(self) -> dict[str, Any]:
        """What `as_duplex` is given."""
        return self._named(
            "generate_audio",
            "chunk_ms",
            "first_chunk_ms",
            "sample_rate",
            "sliding_window_mode",
            "basic_window_high_tokens",
            "basic_window_low_tokens",
            "force_listen_count",
        )

    def generate_arguments(self) -> dict[str, Any]:
        """What `streaming_generate` is given beside the cap on a unit's tokens."""
        return self._named(
            "decode_mode",
            "temperature",
            "top_k",
            "top_p",
            "listen_prob_scale",
            "listen_top_k",
            "text_repetition_penalty",
            "text_repetition_window_size",
        )

    def _named(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class ModelLock:
    """The one model of this release."""

    repository: str
    revision: str
    sources: tuple[LockedFile, ...]
    """Upstream's Python that the adapter drives."""
    companions: tuple[LockedFile, ...]
    """Further small files that loading reads: they name the code that runs, or the vocabulary."""
    references: tuple[LockedFile, ...]
    """What was read to write the adapter; nothing of it is loaded."""
    decode: DecodeSettings
    required_tokens: tuple[str, ...]
    """Each must be one token of its own."""

    @property
    def of_snapshot(self) -> tuple[LockedFile, ...]:
        """What a snapshot is checked for before any of its code is imported."""
        return self.sources + self.companions

    @property
    def every_file(self) -> tuple[LockedFile, ...]:
        return self.sources + self.companions + self.references


@dataclass(frozen=True, kw_only=True)
class SnapshotReport:
    """A folder that may be loaded."""

    folder: Path
    repository: str
    revision: str
    verified: tuple[str, ...]
    """Paths whose bytes are the locked ones."""
    unverified: tuple[str, ...]
    """Paths let through by the override, because nothing is known of them yet."""


# --- a folder against the lock


def verify_snapshot(folder: Path, lock: ModelLock, *, allow_unverified: bool) -> SnapshotReport:
    """Compare every locked file's bytes; reads no code.

    `allow_unverified` lets through, with a warning in the log, what has no fingerprint yet, for
    the first verification. A missing or mismatching file is refused all the same. Raises
    SnapshotRefused naming each file.
    """
    if not folder.is_dir():
        raise SnapshotRefused(
            Problem(
                code="snapshot_missing",
                where=str(folder),
                message="there is no such folder; `omnai model download` makes one",
            )
        )
    problems: list[Problem] = []
    verified: list[str] = []
    unverified: list[str] = []
    for file in lock.of_snapshot:
        if file.fingerprint is None and (folder / file.path).is_file():
            unverified.append(file.path)
            continue
        problem = _mismatch(folder, file)
        if problem is None:
            verified.append(file.path)
        else:
            problems.append(problem)
    unlisted = _unlisted(folder, lock)
    if not allow_unverified:
        problems += [_unverified(path) for path in unverified]
        problems += [_not_listed(path) for path in unlisted]
    if problems:
        raise SnapshotRefused(*problems)
    if unverified or unlisted:
        log.warning(
            "Unverified model files are let through by OMNAI_MODEL_ALLOW_UNVERIFIED.",
            extra={"action": "allow_unverified", "files": [*unverified, *unlisted]},
        )
    return SnapshotReport(
        folder=folder,
        repository=lock.repository,
        revision=lock.revision,
        verified=tuple(verified),
        unverified=(*unverified, *unlisted),
    )


def _mismatch(folder: Path, file: LockedFile) -> Problem | None:
    path = folder / file.path
    if not path.is_file():
        return Problem(
            code="file_missing",
            where=file.path,
            message=f"it is not in the snapshot; {file.repository} at {file.revision} has it",
        )
    assert file.fingerprint is not None
    sha256, size_bytes = fingerprint_of(path)
    wanted = file.fingerprint
    if (sha256, size_bytes) == (wanted.sha256, wanted.size_bytes):
        return None
    return Problem(
        code="file_mismatch",
        where=file.path,
        message=f"it has {size_bytes} bytes with sha256 {sha256}; accepted: {wanted.size_bytes}"
        f" bytes with sha256 {wanted.sha256}, as verified {wanted.verified.at}",
    )


def _unverified(path: str) -> Problem:
    return Problem(
        code="file_unverified",
        where=path,
        message="nobody has verified this file; scripts/lock_model.py records it from a snapshot"
        " of the locked revision",
    )


def _not_listed(path: str) -> Problem:
    return Problem(
        code="file_unlisted",
        where=path,
        message="Python code that the lock does not name; only locked code is accepted",
    )


def _unlisted(folder: Path, lock: ModelLock) -> list[str]:
    known = {file.path for file in lock.of_snapshot}
    return sorted(path.name for path in folder.glob("*.py") if path.name not in known)


def fingerprint_of(path: Path) -> tuple[str, int]:
    """sha256 and bytes of a file. Lets OSError through."""
    digest = hashlib.sha256()
    size_bytes = 0
    with path.open("rb") as file:
        while part := file.read(HASH_BYTES):
            digest.update(part)
            size_bytes += len(part)
    return digest.hexdigest(), size_bytes


# --- fingerprints from a folder


def with_fingerprints(
    lock: ModelLock, found: Mapping[LockedFile, tuple[str, int]], verified: Verification
) -> ModelLock:
    """The lock with what was found; what agrees with an earlier fingerprint keeps that one.

    Raises SnapshotRefused where a fingerprint is known already and differs: a locked revision
    cannot change.
    """
    problems: list[Problem] = []

    def filled(file: LockedFile) -> LockedFile:
        if file not in found:
            return file
        sha256, size_bytes = found[file]
        known = file.fingerprint
        if known is None:
            made = Fingerprint(sha256=sha256, size_bytes=size_bytes, verified=verified)
            return replace(file, fingerprint=made)
        if (known.sha256, known.size_bytes) != (sha256, size_bytes):
            problems.append(
                Problem(
                    code="file_mismatch",
                    where=file.path,
                    message=f"it has sha256 {sha256}; {known.sha256} was verified"
                    f" {known.verified.at} and stays",
                )
            )
        return file

    made = replace(
        lock,
        sources=tuple(map(filled, lock.sources)),
        companions=tuple(map(filled, lock.companions)),
        references=tuple(map(filled, lock.references)),
    )
    if problems:
        raise SnapshotRefused(*problems)
    return made


# --- the file itself


def read_lock(path: Path = LOCK_PATH) -> ModelLock:
    """Raises LockUnreadable for anything missing, unknown or malformed."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format") != LOCK_FORMAT:
            raise ValueError(f"its format is not {LOCK_FORMAT}")
        return _lock(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path.name} cannot be read: {type(error).__name__}: {error}"
        raise LockUnreadable(message) from error


def write_lock(lock: ModelLock, path: Path = LOCK_PATH) -> None:
    """Whole or not at all."""
    document = {
        "format": LOCK_FORMAT,
        "repository": lock.repository,
        "revision": lock.revision,
        "sources": [_file_document(file) for file in lock.sources],
        "companions": [_file_document(file) for file in lock.companions],
        "references": [
            {
                "host": file.host.value,
                "repository": file.repository,
                "revision": file.revision,
                **_file_document(file),
            }
            for file in lock.references
        ],
        "decode": asdict(lock.decode),
        "required_tokens": list(lock.required_tokens),
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text.encode())


def _file_document(file: LockedFile) -> dict[str, Any]:
    known = file.fingerprint
    if known is None:
        return {"path": file.path, "sha256": None, "size_bytes": None, "verified": None}
    return {"path": file.path, **asdict(known)}


def _lock(document: dict[str, Any]) -> ModelLock:
    repository, revision = document["repository"], _checked_revision(document["revision"])

    def own(entries: Iterable[dict[str, Any]]) -> tuple[LockedFile, ...]:
        place = {"host": Host.HUB.value, "repository": repository, "revision": revision}
        return tuple(_file(place | entry) for entry in entries)

    return ModelLock(
        repository=repository,
        revision=revision,
        sources=own(document["sources"]),
        companions=own(document["companions"]),
        references=tuple(_file(entry) for entry in document["references"]),
        decode=DecodeSettings(**document["decode"]),
        required_tokens=tuple(document["required_tokens"]),
    )


_FILE_KEYS = {"host", "repository", "revision", "path", *(f.name for f in fields(Fingerprint))}


def _file(entry: dict[str, Any]) -> LockedFile:
    if set(entry) != _FILE_KEYS:
        raise ValueError(f"a file has the keys {sorted(entry)}, not {sorted(_FILE_KEYS)}")
    path = PurePosixPath(entry["path"])
    if path.is_absolute() or ".." in path.parts or str(path) != entry["path"]:
        raise ValueError(f"{entry['path']!r} is no plain relative path")
    return LockedFile(
        host=Host(entry["host"]),
        repository=entry["repository"],
        revision=_checked_revision(entry["revision"]),
        path=entry["path"],
        fingerprint=_fingerprint(entry),
    )


def _fingerprint(entry: dict[str, Any]) -> Fingerprint | None:
    sha256, size_bytes, verified = (entry[field.name] for field in fields(Fingerprint))
    if (sha256, size_bytes, verified) == (None, None, None):
        return None
    if not _SHA256.fullmatch(sha256) or type(size_bytes) is not int or size_bytes < 0:
        raise ValueError(f"the fingerprint of {entry['path']} is malformed or half there")
    known = Verification(**verified)
    if datetime.fromisoformat(known.at).tzinfo is None or not known.source:
        raise ValueError(f"the verification of {entry['path']} does not say when and from what")
    return Fingerprint(sha256=sha256, size_bytes=size_bytes, verified=known)


def _checked_revision(revision: str) -> str:
    if not _REVISION.fullmatch(revision):
        raise ValueError(f"{revision!r} is no full commit id; branches and tags can move")
    return revision
