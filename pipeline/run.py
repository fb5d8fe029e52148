"""The one loop: every second of a recording from the media process to the ledger."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from pipeline.engine.session import Engine, Session
from pipeline.errors import (
    EngineError,
    FenceLost,
    MediaStopped,
    OmnaiError,
    RecordingRefused,
    SessionStopped,
)
from pipeline.findings.reader import FindingsReader
from pipeline.heartbeat import Heartbeat
from pipeline.ledger import epochs, jobs, texts, units
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import BlobsUnavailable, DatabaseUnavailable, StorageFull
from pipeline.ledger.frames import FrameStore
from pipeline.level import rms_dbfs
from pipeline.records import (
    Coming,
    EndReason,
    Evidence,
    Finding,
    Frame,
    Gap,
    JobState,
    MediaEnd,
    MediaEvent,
    Phase,
    Probe,
    Reply,
    SessionContext,
    SessionEnd,
    Unit,
    UnitClocks,
    WrittenUnit,
)

OUTAGE_S = 60.0
"""How long a unit's write is repeated while the database is away: a restart takes seconds."""

OUTAGE_LEAVING_S = 1.0
"""The same for a process that was told to go and has two seconds; a reaper ends its epoch."""

LEFT_DETAIL = "the worker was told to leave; the second in progress was completed first"
CLOSED_DETAIL = "the night's window closed; the second in progress was completed first"
LEFT_EARLY_DETAIL = "the worker was told to leave before the first second was watched"
CLOSED_EARLY_DETAIL = "the night's window closed before the first second was watched"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the loop has come; told after every unit."""

    source_ms: int
    """End of the last completed unit."""
    source_end_ms: int | None
    """Where the source is expected to end."""
    findings: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an epoch and its job ended."""

    state: JobState
    end_reason: EndReason
    end_detail: str | None
    units: int
    """Completed source seconds."""


class _Leaving(Exception):
    """The process is told to go; what was in flight is committed."""


@dataclass(frozen=True, kw_only=True)
class _End:
    """Why the loop left off."""

    outcome: JobState
    reason: EndReason
    detail: str | None = None


class Watch:
    """One epoch over one recording.

    `run` is called once, from the thread that owns the engine; `stop` and `leave` at any time from
    any thread or signal handler. `before_release` runs once the end is stored and the engine reset,
    while the slot is held; never where somebody else has ended the epoch.
    """

    def __init__(
        self,
        key: EpochKey,
        context: SessionContext,
        *,
        engine: Engine,
        database: Database,
        frames: FrameStore,
        frame_ring: int,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        before_release: Callable[[], object] = lambda: None,
    ) -> None:
        self._key = key
        self._context = context
        self._engine = engine
        self._database = database
        self._frames = frames
        self._on_progress = on_progress
        self._before_release = before_release
        self._reader = FindingsReader(
            epoch=key.number, holdings=context.holdings, ring_capacity=frame_ring
        )
        self._stopped = threading.Event()
        self._leaves_for: EndReason | None = None
        self._session: Session | None = None
        self._sequence = 0
        self._units = 0
        self._written: WrittenUnit | None = None
        """The last committed unit, told with the next write: its own row could not know."""
        self._source_ms = context.options.start_s * 1000
        self._source_end_ms: int | None = None
        self._findings: set[tuple[int, int]] = set()
        self._media_end: MediaEnd | None = None

    def run(self, events: Iterable[MediaEvent]) -> Outcome:
        """Feed every unit, then end the epoch and its job in the database.

        Every fault ends in a stored state. Raises FenceLost where somebody else has ended the
        epoch, DatabaseUnavailable where the end could not be stored, and after storing the end
        whatever is a fault of our own.
        """
        try:
            with Heartbeat(self._database, self._key, on_fence_lost=self.stop):
                try:
                    end = self._watch(events)
                except FenceLost:
                    raise
                except Exception:
                    self._finish(_failed(EndReason.INTERNAL, "a fault of OmnAI's own; see its log"))
                    raise
                outcome = self._finish(end)
            self._before_release()
            return outcome
        finally:
            if self._session is not None:
                self._session.close()
            self._release()

    def stop(self) -> None:
        """End after the unit in flight; its output is discarded, what is stored stays."""
        self._stopped.set()
        if self._session is not None:
            self._session.stop()
        else:
            self._engine.stop_opening()

    def leave(self, reason: EndReason) -> None:
        """End as failed for `reason` once the unit in flight is committed; a stop goes before.

        Whoever wants an opening of the engine or the next event cut short sees to that afterwards.
        """
        self._leaves_for = self._leaves_for or reason

    @property
    def is_leaving(self) -> bool:
        return self._leaves_for is not None

    # --- the loop

    def _watch(self, events: Iterable[MediaEvent]) -> _End:
        try:
            self._open()
            self._go_on()
            for event in events:
                self._take(event)
                self._go_on()
            self._drain()
        except _Leaving:
            return self._left()
        except SessionStopped:
            return _End(outcome=JobState.CANCELED, reason=EndReason.CANCELED)
        except (MediaStopped, RecordingRefused) as error:
            # Whoever ends a whole process group ends the decoder too.
            if self._leaves_for is not None:
                return self._left()
            return _failed(EndReason.DECODE_ERROR, error.message)
        except EngineError as error:
            return _failed(EndReason.ENGINE_ERROR, error.message)
        except (StorageFull, BlobsUnavailable, OSError) as error:
            return _storage_end(error)
        except DatabaseUnavailable as error:
            return _failed(EndReason.DATABASE_UNAVAILABLE, error.message)
        return _End(outcome=JobState.SUCCEEDED, reason=EndReason.COMPLETED)

    def _open(self) -> None:
        epochs.enter(self._database, self._key, Phase.PREPARE)
        self._go_on()
        try:
            self._session = self._engine.open(self._context)
        except SessionStopped:
            self._go_on()
            raise
        if self._stopped.is_set():
            raise SessionStopped

    def _go_on(self) -> None:
        if self._leaves_for is not None and not self._stopped.is_set():
            raise _Leaving

    def _left(self) -> _End:
        assert self._leaves_for is not None
        if self._leaves_for is EndReason.NIGHT_ENDED:
            return _failed(self._leaves_for, CLOSED_DETAIL if self._units else CLOSED_EARLY_DETAIL)
        return _failed(self._leaves_for, LEFT_DETAIL if self._units else LEFT_EARLY_DETAIL)

    def _take(self, event: MediaEvent) -> None:
        match event:
            case Probe():
                self._source_end_ms = event.packet_end_ms
                epochs.record_probe(self._database, self._key, event)
            case Coming():
                assert self._session is not None
                self._session.expect(event.unit)
            case Unit():
                self._feed(event)
            case Gap():
                epochs.record_gap(self._database, self._key, event)
            case MediaEnd():
                self._media_end = event
                self._source_end_ms = event.source_end_ms

    def _feed(self, unit: Unit) -> None:
        assert self._session is not None
        began = time.monotonic()
        reply = self._session.step(unit, epoch=self._key.number, sequence=self._sequence)
        self._sequence += 1
        found = self._reader.observe(
            reply, start_ms=unit.start_ms, end_ms=unit.end_ms, frame=unit.frame
        )
        self._source_ms = unit.end_ms
        self._store(unit, reply, found, began)
        self._units += 1
        self._tell()

    def _drain(self) -> None:
        """What the drain completes counts for the last source second; it takes no source time."""
        assert self._session is not None
        if not jobs.move(
            self._database,
            self._key.job_id,
            source=JobState.RUNNING,
            target=JobState.FINALIZING,
            under=self._key,
        ):
            raise SessionStopped  # a cancel came first
        epochs.enter(self._database, self._key, Phase.DRAIN)
        began = time.monotonic()
        for reply in self._session.drain(epoch=self._key.number):
            end_ms = self._source_ms
            found = self._reader.observe(reply, start_ms=end_ms, end_ms=end_ms, frame=None)
            self._store(None, reply, found, began)
            self._go_on()
            began = time.monotonic()

    def _store(
        self, unit: Unit | None, reply: Reply, found: Sequence[Evidence | Finding], began: float
    ) -> None:
        """Commit one unit with what it completed, before the next one is fed.

        `began` is when the unit was handed to the engine, by the monotonic clock.
        """
        store_began = time.monotonic()
        shown = self._keep_frames(found)
        clocks = _clocks(unit, reply)

        def write() -> bool:
            return units.record(
                self._database,
                self._key,
                unit=unit,
                source_end_ms=self._source_ms,
                reply=reply,
                clocks=clocks,
                texts=found,
                frames=shown,
                rms_dbfs=None if unit is None else rms_dbfs(unit.pcm),
                written=self._written,
            )

        is_cancel_asked = self._through_outage(
            write, {"second": None if unit is None else unit.second, "sequence": reply.sequence}
        )
        ended = time.monotonic()
        self._written = WrittenUnit(
            sequence=reply.sequence,
            ledger_ms=(ended - store_began) * 1000,
            total_ms=(ended - began) * 1000,
        )
        self._findings.update((f.turn, f.block) for f in found if isinstance(f, Finding))
        if is_cancel_asked:
            self.stop()

    def _keep_frames(self, found: Sequence[Evidence | Finding]) -> tuple[Frame, ...]:
        """Files first: no row may name a frame that a power cut could take away."""
        shown = self._reader.frames(found)
        for frame in shown:
            self._frames.keep(frame)
        return shown

    def _through_outage(self, write: Callable[[], bool], place: Mapping[str, int | None]) -> bool:
        """Repeat a write that may be repeated while the database is away, up to OUTAGE_S."""
        began = time.monotonic()
        deadline = began + OUTAGE_S
        pause_s = 0.2
        while True:
            try:
                return write()
            except StorageFull:
                raise
            except DatabaseUnavailable:
                if self._leaves_for is EndReason.WORKER_SHUTDOWN:
                    deadline = min(deadline, began + OUTAGE_LEAVING_S)
                if time.monotonic() + pause_s > deadline or self._stopped.is_set():
                    raise
                log.warning(
                    "The database is away; a unit waits.",
                    extra={"action": "database_away", **self._key.log_context(), **place},
                )
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, 5.0)

    # --- the end

    def _finish(self, end: _End) -> Outcome:
        """Store what the open turn has left, then how the epoch and its job ended."""
        session_end = self._close_session()
        end = self._store_cut(end)
        state = jobs.finish(
            self._database,
            self._key,
            outcome=end.outcome,
            end_reason=end.reason,
            end_detail=end.detail,
            media_end=self._media_end,
            session_end=session_end,
            written=self._written,
        )
        log.info(
            "An epoch ended.",
            extra={**self._key.log_context(), "end_reason": end.reason.value, "units": self._units},
        )
        return Outcome(state=state, end_reason=end.reason, end_detail=end.detail, units=self._units)

    def _store_cut(self, end: _End) -> _End:
        """What the open turn has left; without its pictures where they cannot be kept. An epoch
        that another fault ended keeps its reason, one that had completed ends with this one."""
        cut = self._reader.cut()
        if not cut:
            return end
        shown: tuple[Frame, ...] = ()
        try:
            shown = self._keep_frames(cut)
        except (BlobsUnavailable, StorageFull, OSError) as error:
            if end.reason is EndReason.COMPLETED:
                end = _storage_end(error)
            cut = tuple(replace(text, origin=replace(text.origin, frames=())) for text in cut)
        texts.record(self._database, self._key, texts=cut, frames=shown)
        return end

    def _close_session(self) -> SessionEnd | None:
        return None if self._session is None else self._session.close()

    def _release(self) -> None:
        """Free the slot once the engine is reset; an epoch that never ended keeps it.

        Where the reset failed the slot is free when this process is gone.
        """
        if self._engine.is_lost:
            return
        try:
            epochs.release(self._database, self._key)
        except OmnaiError as error:
            log.warning(
                "A slot was not released.", extra={**self._key.log_context(), "code": error.code}
            )

    def _tell(self) -> None:
        self._on_progress(
            Progress(
                source_ms=self._source_ms,
                source_end_ms=self._source_end_ms,
                findings=len(self._findings),
            )
        )


def _storage_end(error: StorageFull | BlobsUnavailable | OSError) -> _End:
    """Raises an OSError that tells of something else than a full disk."""
    if isinstance(error, BlobsUnavailable):
        return _failed(EndReason.STORAGE_UNAVAILABLE, error.message)
    if isinstance(error, StorageFull):
        return _failed(EndReason.STORAGE_FULL, error.message)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        raise error
    return _failed(EndReason.STORAGE_FULL, "the disk for evidence frames is full")


def _failed(reason: EndReason, detail: str) -> _End:
    return _End(outcome=JobState.FAILED, reason=reason, detail=detail)


def _clocks(unit: Unit | None, reply: Reply) -> UnitClocks:
    emitted_at = datetime.now(timezone.utc)
    return UnitClocks(
        decode_ms=0.0 if unit is None else unit.decode_ms,
        queue_wait_ms=reply.queue_wait_ms,
        inference_started_at=emitted_at - timedelta(milliseconds=reply.inference_ms),
        inference_ended_at=emitted_at,
        emitted_at=emitted_at,
    )
