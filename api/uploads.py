"""An upload on its way: written once under a temporary name, hashed, synced, probed, then named."""

from __future__ import annotations

import errno
import hashlib
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from api.errors import Refusal
from api.limits import FILENAME_CHARS_MAX
from api.service import Service
from pipeline.errors import OmnaiError
from pipeline.ledger import recordings
from pipeline.ledger.database import Transaction
from pipeline.ledger.recordings import Recording
from pipeline.media_child import MediaChild
from pipeline.records import Probe

READ_BYTES = 1 << 20
DEFAULT_NAME = "recording"

_BIDI_CONTROLS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@dataclass(frozen=True, kw_only=True)
class Received:
    """A file that is whole and synced under its temporary name, and belongs to nobody yet."""

    upload_id: str
    filename: str
    sha256: str
    size_bytes: int


def receive(
    service: Service, chunks: Iterable[bytes], *, owner: str, filename: str, bytes_max: int
) -> Received:
    """Write what comes; whatever goes wrong removes the temporary file, which is ours."""
    upload_id = recordings.begin_upload(service.database, owner=owner, filename=filename)
    digest = hashlib.sha256()
    size_bytes = 0
    try:
        with service.blobs.begin(upload_id).open("wb") as file:
            for chunk in chunks:
                size_bytes += len(chunk)
                if size_bytes > bytes_max:
                    raise Refusal(
                        "upload_too_large",
                        f"the file is too large; at most {bytes_max} bytes are accepted",
                    )
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        _drop(service, upload_id)
        raise _of_disk(error) from error
    except BaseException:
        _drop(service, upload_id)
        raise
    return Received(
        upload_id=upload_id, filename=filename, sha256=digest.hexdigest(), size_bytes=size_bytes
    )


def keep(
    service: Service,
    received: Received,
    *,
    then: Callable[[Transaction, Recording], None] | None = None,
) -> Recording:
    """Probe and store it; a recording that cannot be analysed is refused and removed.

    What `then` writes is committed with the recording or not at all.
    Always probed, also where these bytes are known: the time taken must not tell.
    """
    try:
        probe = _probe(service, received)
    except BaseException:
        _drop(service, received.upload_id)
        raise
    recordings.name_upload(
        service.database,
        received.upload_id,
        sha256=received.sha256,
        size_bytes=received.size_bytes,
    )
    try:
        service.blobs.commit(received.upload_id, received.sha256)
    except OSError as error:
        raise _of_disk(error) from error
    # From here on the bytes may be another recording's too: nothing below removes them.
    return recordings.finish_upload(
        service.database,
        received.upload_id,
        sha256=received.sha256,
        size_bytes=received.size_bytes,
        probe=probe,
        then=then,
    )


def drop(service: Service, received: Received) -> None:
    """For an upload that is not needed: the same request has been answered before."""
    _drop(service, received.upload_id)


def read_chunks(stream: IO[bytes], *, announced: int | None = None) -> Iterator[bytes]:
    """A raw body; some servers end a stream that broke off as they end a whole one."""
    size_bytes = 0
    while chunk := stream.read(READ_BYTES):
        size_bytes += len(chunk)
        yield chunk
    if announced is not None and size_bytes != announced:
        raise Refusal(
            "upload_broken_off",
            f"{size_bytes} of {announced} announced bytes came; send the file again",
        )


def clean_filename(given: str | None) -> str:
    """A base name to show and to offer: no folders, no control or direction characters."""
    base = (given or "").replace("\\", "/").rpartition("/")[2]
    kept = "".join(character for character in base if not _is_hidden(character)).strip(" .")
    if len(kept) > FILENAME_CHARS_MAX:
        stem, dot, ending = kept.rpartition(".")
        ending = dot + ending if 0 < len(ending) <= 10 else ""
        kept = (stem if ending else kept)[: FILENAME_CHARS_MAX - len(ending)] + ending
    return kept or DEFAULT_NAME


def _is_hidden(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in _BIDI_CONTROLS
    )


def _probe(service: Service, received: Received) -> Probe:
    path = service.blobs.begin(received.upload_id)
    with MediaChild(
        path, limits=service.settings.media, longest_edge_px=448, is_probe_only=True
    ) as media:
        for event in media:
            if isinstance(event, Probe):
                return event
    raise OmnaiError("the media process gave no probe")


def _drop(service: Service, upload_id: str) -> None:
    service.blobs.discard(upload_id)
    recordings.abandon_upload(service.database, upload_id)


def _of_disk(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refusal("storage_full", "the disk for recordings is full; nothing was kept")
    return error
