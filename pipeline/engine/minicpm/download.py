"""Fetches the locked snapshot from the model hub; nothing else ever asks the hub."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.engine.minicpm.lock import ModelLock
from pipeline.errors import OmnaiError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LEFT_OUT = "assets/**"
"""Voices and pictures of the model card; the four checkpoint shards are needed all the same."""

FILES_AT_ONCE = 4
"""One a shard: a hub gives each connection its own pace."""

METADATA = Path(".cache") / "huggingface" / "download"
"""Where the hub's client notes, beside the files, from which commit each one came. Its shared cache
has folders named for the commit instead, with links to files named for their tag."""


class DownloadFailed(OmnaiError):
    """The model could not be downloaded; what arrived is kept and the next try goes on from it."""

    code = "model_download_failed"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What the hub's client noted of a file."""

    revision: str
    etag: str
    """sha256 of a large file, git's own digest of any other."""

    def is_of(self, content: bytes) -> bool:
        git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return self.etag in (hashlib.sha256(content).hexdigest(), git.hexdigest())


def download(
    lock: ModelLock, folder: Path, *, only: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Bring the locked revision, or `only` these files of it, into the folder; return its paths.

    Files that are there are kept, half a file is continued. The token is `HF_TOKEN`'s and no
    other; the hub's address is `HF_ENDPOINT`'s. Raises DownloadFailed, which names neither.
    """
    with _translated():
        from huggingface_hub import HfApi
        from huggingface_hub.utils import logging

        # Its warnings show addresses, some of them signed.
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        # False: a token that somebody stored on this machine is not ours to send.
        api = HfApi(
            endpoint=os.environ.get("HF_ENDPOINT"),
            token=os.environ.get("HF_TOKEN") or False,
            library_name="omnai",
        )
        # Asked first: where the hub is away, its client takes a half-filled folder for a whole one.
        sizes = _listed(api, lock, only)
        api.snapshot_download(
            lock.repository,
            revision=lock.revision,
            local_dir=folder,
            allow_patterns=None if only is None else list(only),
            ignore_patterns=[LEFT_OUT],
            max_workers=FILES_AT_ONCE,
        )
    incomplete = [path for path, size in sizes.items() if not _is_whole(folder / path, size)]
    if incomplete:
        raise DownloadFailed(f"not whole: {', '.join(incomplete)}; download again")
    return tuple(sizes)


def origin(folder: Path, path: str) -> Origin | None:
    """Where a downloaded file is from; None where nothing in the folder tells."""
    if folder.parent.name == "snapshots" and (folder / path).is_symlink():
        return Origin(revision=folder.name, etag=(folder / path).resolve().name)
    try:
        noted = (folder / METADATA / f"{path}.metadata").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return Origin(revision=noted[0], etag=noted[1]) if len(noted) > 1 else None


def _listed(api: HfApi, lock: ModelLock, only: Sequence[str] | None) -> dict[str, int | None]:
    """Size by path, of what is to be fetched."""
    info = api.model_info(lock.repository, revision=lock.revision, files_metadata=True)
    if info.sha != lock.revision:
        raise DownloadFailed(f"the hub answered with revision {info.sha}, not {lock.revision}")
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    wanted = [path for path in sizes if not fnmatch(path, LEFT_OUT)] if only is None else only
    missing = [path for path in wanted if path not in sizes]
    if missing or not wanted:
        told = ", ".join(missing) or "files"
        raise DownloadFailed(f"{lock.repository} has no {told} at {lock.revision}")
    return {path: sizes[path] for path in wanted}


def _is_whole(path: Path, size: int | None) -> bool:
    return path.is_file() and size in (None, path.stat().st_size)


@contextmanager
def _translated() -> Iterator[None]:
    """The hub's errors carry addresses, some of them signed; only their kind is passed on."""
    from huggingface_hub import errors
    from requests import RequestException

    try:
        yield
    except errors.GatedRepoError as error:
        message = "the model's terms must be accepted first; set HF_TOKEN to a token that may read"
        raise DownloadFailed(message) from error
    except errors.LocalEntryNotFoundError as error:
        raise DownloadFailed("the hub did not give every file; download again") from error
    except errors.HfHubHTTPError as error:
        status = None if error.response is None else error.response.status_code
        hint = "; HF_TOKEN must be a token that may read it" if status in (401, 403, 404) else ""
        raise DownloadFailed(f"the hub answered with status {status}{hint}") from error
    except (RequestException, errors.OfflineModeIsEnabled) as error:
        message = f"the hub cannot be reached ({type(error).__name__})"
        raise DownloadFailed(message) from error
