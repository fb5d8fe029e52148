"""One link from its claim to its end: fetched, examined, kept, and its job moved on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from pipeline import intake
from pipeline.errors import DiskFull, MediaStopped, OmnaiError, RecordingRefused
from pipeline.intake import Received
from pipeline.ledger import fetches, recordings, uploads
from pipeline.ledger.blobs import BlobStore
from pipeline.ledger.database import Database
from pipeline.ledger.errors import (
    BlobsUnavailable,
    DatabaseUnavailable,
    FetchLost,
    StorageFull,
    UploadGone,
    UploadUnknown,
)
from pipeline.ledger.fetches import Claim, Version
from pipeline.records import EndReason
from pipeline.request import recording_problems
from pipeline.settings import Settings
from worker.enqueue import ring_for
from worker.ingest.connect import FetchStopped, Internet, Patience, Watch
from worker.ingest.fetch import FetchFailed, FetchRefused, fetch
from worker.ingest.lease import LEASE_S, RENEW_S, Lease
from worker.ingest.sink import Sink, Tell, held
from worker.room import has_room

ATTEMPTS_MAX = 8
"""In a row without a part that the next one could go on from."""

PAUSES_S = (2.0, 5.0, 15.0, 60.0, 120.0, 300.0, 600.0)
"""Between two attempts; together about eighteen minutes, which outlast a server's restart."""

_REFUSED = (FetchRefused, RecordingRefused, MediaStopped, DiskFull, StorageFull)
"""Another attempt would end the same way."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long leases, waits and pauses are; tests have shorter ones."""

    patience: Patience = field(default_factory=Patience)
    lease_s: float = LEASE_S
    renew_s: float = RENEW_S
    pauses_s: tuple[float, ...] = PAUSES_S


class Errand:
    """Runs one claim after the other; any number may run at once, in any number of processes."""

    def __init__(
        self,
        settings: Settings,
        *,
        database: Database,
        blobs: BlobStore,
        internet: Internet,
        leaving: threading.Event,
        pace: Pace,
    ) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._internet = internet
        self._leaving = leaving
        self._pace = pace

    def run_next(self) -> bool:
        """Fetch what waits longest; return whether there was anything.

        Raises DatabaseUnavailable: what was claimed then is let go of by its lease, and what was
        received stays for whoever takes it next.
        """
        if not has_room(self._settings):
            return False
        claim = fetches.claim(self._database, lease_s=self._pace.lease_s)
        if claim is None:
            return False
        log.info("A link was claimed.", extra={"action": "fetch", **claim.log_context()})
        with Lease(
            self._database, claim, lease_s=self._pace.lease_s, renew_s=self._pace.renew_s
        ) as lease:
            self._run(claim, lease)
        return True

    def _run(self, claim: Claim, lease: Lease) -> None:
        """Afterwards the job has moved on, or the claim is let go of."""
        if self._is_over_bounds(claim):
            return
        try:
            with self._file(claim) as (bound, file):
                self._attempt(bound, file, lease)
        except FetchLost:
            _tell(claim, "A fetch was not wanted any more.", "fetch_lost")

    def _attempt(self, claim: Claim, file: BinaryIO, lease: Lease) -> None:
        """Whoever holds the file answers for it: it stays only for another attempt."""
        sink = Sink(file, self._teller(claim))
        is_kept = False
        try:
            self._bring(claim, sink, lease)
        except FetchStopped:
            is_kept = not lease.is_lost and self._stopped(claim, sink)
        except (FetchFailed, BlobsUnavailable, UploadGone, UploadUnknown, OSError) as failed:
            is_kept = self._failed(claim, failed, sink)
        except DatabaseUnavailable:
            is_kept = True
            raise
        except _REFUSED as refused:
            self._end(claim, _end_reason(refused), refused.message, refused.code)
        finally:
            if not is_kept:
                self._drop(claim)

    def _bring(self, claim: Claim, sink: Sink, lease: Lease) -> None:
        received = self._fetched(claim, sink, lease)
        uploads.renew(self._database, received.upload_id)  # a probe may take hours
        probe = intake.examine(self._blobs, received, limits=self._settings.media)
        if not fetches.renew(self._database, claim, lease_s=self._pace.lease_s):
            raise FetchLost  # before the bytes get a name of their own
        problems = recording_problems(claim.options, probe)
        refusal = "; ".join(problem.message for problem in problems) or None
        intake.store(
            self._database,
            self._blobs,
            received,
            probe=probe,
            then=lambda session, recording: fetches.finish(
                session, claim, recording, refusal=refusal
            ),
        )
        if problems:
            _tell(claim, "A recording lacks what its job asks for.", problems[0].code)
            return
        _tell(claim, "A recording was fetched.", "fetched")
        ring_for(self._settings, self._database, claim.job_id)

    def _fetched(self, claim: Claim, sink: Sink, lease: Lease) -> Received:
        patience = self._pace.patience
        watch = Watch(lambda: self._is_over(lease), patience)
        with intake.disk_errors():
            fetch(
                claim.link,
                sink,
                internet=self._internet,
                watch=watch,
                deadline=time.monotonic() + patience.total_s - claim.elapsed_s,
                bytes_max=self._settings.media.file_bytes,
                kept=claim.version,
                kept_bytes=claim.received_bytes,
            )
        assert claim.upload_id is not None
        return Received(
            upload_id=claim.upload_id,
            filename=claim.filename,
            sha256=sink.sha256,
            size_bytes=sink.size_bytes,
        )

    def _is_over(self, lease: Lease) -> bool:
        """Also where the disk runs low: what has come stays, for when there is room again."""
        return self._leaving.is_set() or lease.is_lost or not has_room(self._settings)

    @contextmanager
    def _file(self, claim: Claim) -> Iterator[tuple[Claim, BinaryIO]]:
        """The claim with the file that its bytes go into; the one of earlier attempts where nobody
        else can still write into that. Raises FetchLost."""
        if claim.upload_id is not None:
            with held(self._blobs.begin(claim.upload_id)) as file:
                if file is not None:
                    yield claim, file
                    return
        upload_id = recordings.begin_upload(
            self._database, owner=claim.owner, filename=claim.filename
        )
        bound = replace(claim, upload_id=upload_id, received_bytes=0, version=None)
        with held(self._blobs.begin(upload_id)) as file:
            assert file is not None  # nobody else knows its name yet
            if not fetches.bind(self._database, claim, upload_id):
                self._drop(bound)
                raise FetchLost
            yield bound, file

    def _teller(self, claim: Claim) -> Tell:
        def tell(safe_bytes: int, total_bytes: int | None, version: Version | None) -> bool:
            try:
                return fetches.advance(
                    self._database,
                    claim,
                    received_bytes=safe_bytes,
                    total_bytes=total_bytes,
                    version=version,
                )
            except DatabaseUnavailable:
                # Before the first byte of another version it has to be known; later it can wait.
                if safe_bytes == 0:
                    raise
                log.warning("A fetch's progress was not stored.", extra=claim.log_context())
                return True

        return tell

    def _is_over_bounds(self, claim: Claim) -> bool:
        """Attempts that ended with their process count too: a file that kills it would go on."""
        total_s = self._pace.patience.total_s
        if claim.attempts <= ATTEMPTS_MAX and claim.elapsed_s < total_s:
            return False
        self._end(
            claim,
            EndReason.LINK_FAILED,
            f"the recording did not come within {ATTEMPTS_MAX} attempts and"
            f" {total_s / 3600:g} hours; submit it again, or upload it",
            "link_given_up",
        )
        if claim.upload_id is not None:
            self._drop(claim)
        return True

    def _stopped(self, claim: Claim, sink: Sink) -> bool:
        """Told to leave: the next process goes on at once from all that came."""
        with suppress(FetchStopped, OSError):
            sink.make_safe()
        _tell(claim, "A fetch was stopped.", "fetch_stopped")
        return fetches.give_back(self._database, claim)

    def _failed(self, claim: Claim, failed: Exception, sink: Sink) -> bool:
        """Put it off, or end it; return whether its bytes are kept for another attempt."""
        code, message = "storage_failed", "the recording could not be written to storage"
        if isinstance(failed, OmnaiError):
            code, message = failed.code, failed.message
        with suppress(FetchStopped, OSError):
            sink.make_safe()
        has_come = sink.safe_bytes - claim.received_bytes >= self._pace.patience.window_bytes
        if claim.attempts >= ATTEMPTS_MAX and not has_come:
            message += f"; {claim.attempts} attempts were made; submit it again later, or upload it"
            self._end(claim, EndReason.LINK_FAILED, message, code)
            return False
        after_s = self._pace.pauses_s[min(claim.attempts, len(self._pace.pauses_s)) - 1]
        if isinstance(failed, FetchFailed) and failed.retry_after_s is not None:
            after_s = max(after_s, failed.retry_after_s)
        _tell(claim, "A fetch failed and is tried again.", code)
        return fetches.postpone(self._database, claim, after_s=after_s, is_new_start=has_come)

    def _end(self, claim: Claim, reason: EndReason, detail: str, code: str) -> None:
        fetches.fail(self._database, claim, end_reason=reason, end_detail=detail)
        _tell(claim, "A fetch ended without a recording.", code)

    def _drop(self, claim: Claim) -> None:
        """Idempotent; what was stored as a recording is no longer under this name."""
        assert claim.upload_id is not None
        self._blobs.discard(claim.upload_id)
        recordings.abandon_upload(self._database, claim.upload_id)


def _end_reason(refused: OmnaiError) -> EndReason:
    if isinstance(refused, FetchRefused):
        return EndReason.LINK_REFUSED
    if isinstance(refused, DiskFull | StorageFull):
        return EndReason.STORAGE_FULL
    return EndReason.RECORDING_REFUSED


def _tell(claim: Claim, what: str, code: str) -> None:
    log.info(what, extra={"action": code, **claim.log_context()})
