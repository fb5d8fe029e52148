"""What uploads of every kind share: their bytes as a request brings them, and what is left over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import IO

from flask import Flask, Response, request
from werkzeug.exceptions import ClientDisconnected

from api.errors import Refusal
from api.limits import UPLOAD_OVERHEAD_BYTES
from api.service import Service, service
from pipeline import intake
from pipeline.errors import OmnaiError
from pipeline.ledger import tallies
from pipeline.ledger.space import space_of
from pipeline.ledger.tallies import Tally

READ_BYTES = 1 << 18
"""At a time; so much may be lost of what came before a connection breaks."""

LOOK_BYTES = 64 << 20
"""Written between two looks at the disk: far less than has to stay free."""

SILENCE_S = 60.0
"""A connection that brings nothing for so long is dead, and its upload is free for another."""

SWEEP_S = 600.0
"""How often what uploads left is looked for: with the first request, and with a later one."""

TAKING = frozenset(
    {"recordings.upload", "uploads.create", "uploads.add", "uploads.override", "pages.forms.upload"}
)
"""Endpoints that a recording is sent to, or announced at."""

log = logging.getLogger(__name__)


class Sweeper:
    """Says when it is time to sweep, to one request at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due_at = time.monotonic()

    def is_due(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if now < self._due_at:
                return False
            self._due_at = now + SWEEP_S
            return True


def install(app: Flask) -> None:
    sweeper = Sweeper()

    @app.after_request
    def sweep_when_due(response: Response) -> Response:
        if sweeper.is_due():
            # Once the answer has gone, so that nobody waits for it, least of all `/healthz`.
            held = service()
            response.call_on_close(lambda: _sweep(held))
        return response

    @app.after_request
    def count_refused(response: Response) -> Response:
        """By the answer: the mark, a full disk and a full database are told in several places."""
        is_full = response.status_code == HTTPStatus.INSUFFICIENT_STORAGE
        if is_full and request.endpoint in TAKING:
            tallies.add(service().database, Tally.UPLOADS_REFUSED_SPACE)
        return response


def open_body() -> None:
    """Before the first byte of a recording is read: whether it fits, how much may come, how slowly.

    Files may be large; everything else keeps the application's own bound. Raises StorageLow.
    """
    check_space(request.content_length or 0)
    request.max_content_length = service().upload_bytes_max + UPLOAD_OVERHEAD_BYTES
    connection = request.environ.get("gunicorn.socket")
    if connection is not None:
        connection.settimeout(SILENCE_S)


def check_space(coming_bytes: int) -> None:
    """Raises StorageLow where the mark would not hold with so many bytes more."""
    space_of(service().settings).check(coming_bytes=coming_bytes)


def above_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same, looked at again and again: who waits, or says no length, must not fill the disk.

    Raises StorageLow.
    """
    unchecked_bytes = LOOK_BYTES
    for chunk in chunks:
        unchecked_bytes += len(chunk)
        if unchecked_bytes >= LOOK_BYTES:
            check_space(len(chunk))
            unchecked_bytes = 0
        yield chunk


def read_chunks(stream: IO[bytes], *, announced: int | None = None) -> Iterator[bytes]:
    """A raw body; some servers end a stream that broke off as they end a whole one."""
    size_bytes = 0
    try:
        while chunk := stream.read(READ_BYTES):
            size_bytes += len(chunk)
            yield chunk
    except (OSError, ClientDisconnected) as error:
        raise _broken_off(size_bytes, announced) from error
    if announced is not None and size_bytes != announced:
        raise _broken_off(size_bytes, announced)


def _broken_off(size_bytes: int, announced: int | None) -> Refusal:
    of = "" if announced is None else f" of {announced} announced"
    return Refusal("upload_broken_off", f"{size_bytes}{of} bytes came; send the rest or all again")


def _sweep(held: Service) -> None:
    try:
        count = intake.sweep(held.database, held.blobs)
    except (OmnaiError, OSError) as error:
        log.warning(
            "What uploads left could not be removed; it will be tried again.",
            extra={"action": "sweep", "error": type(error).__name__},
        )
        return
    if count:
        log.info("Uploads were given up.", extra={"action": "sweep", "count": count})
