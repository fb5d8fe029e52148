"""One worker slot at work: claims a job, runs it, and publishes its brief."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from pipeline import prompt
from pipeline.engine.session import Engine
from pipeline.errors import (
    FenceLost,
    MediaStopped,
    OmnaiError,
    RecordingRefused,
    SessionStopped,
)
from pipeline.ledger import claims, epochs, jobs
from pipeline.ledger.claims import Claimed
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import (
    BlobDamaged,
    BlobMissing,
    DatabaseUnavailable,
    SlotBusy,
    StorageFull,
)
from pipeline.ledger.storage import open_storage
from pipeline.media_child import MediaChild
from pipeline.publish import publish
from pipeline.records import EndReason, Holding, JobState, MediaEvent, Phase, SessionContext
from pipeline.release import RELEASE
from pipeline.run import Watch
from pipeline.settings import Settings
from worker.enqueue import ring
from worker.night_end import ending_at_close
from worker.room import has_room
from worker.slot import slot_name

SETTLE_PAUSE_S = 2.0

STAMP_S = 5.0
"""How often the bringing of a recording is told as progress."""

LEFT_STAGING = "the recording had not been brought to this worker yet"

MISSING_DETAIL = (
    "the recording's bytes are not in this worker's storage; put them back, or submit it again"
)

log = logging.getLogger(__name__)


class Station:
    """Owns the engine of this process. `work` comes from one thread, `leave` from its signals."""

    def __init__(self, settings: Settings, *, engine: Engine, database: Database) -> None:
        self._settings = settings
        self._engine = engine
        self._database = database
        self._storage = open_storage(settings)
        self._watch: Watch | None = None
        self._media: MediaChild | None = None
        self._is_leaving = False
        self._may_go = True

    @property
    def is_lost(self) -> bool:
        """Whether the engine can run nothing more, so that this process must be replaced."""
        return self._engine.is_lost

    @property
    def is_leaving(self) -> bool:
        return self._is_leaving

    @property
    def may_go(self) -> bool:
        """Whether the process may go at any instant: what it claimed has ended in the database, or
        cannot be ended by it; a brief may be missing."""
        return self._may_go

    def leave(self) -> None:
        """End the epoch in progress after its unit in flight; take nothing new, render nothing."""
        self._is_leaving = True
        self._end_epoch(EndReason.WORKER_SHUTDOWN)

    def work(self) -> bool:
        """Run the next job for this engine; return whether there was one.

        Whatever was claimed has ended and its slot is free again, or this raises.
        """
        if self._is_leaving or self.is_lost:
            return False
        self._may_go = False
        try:
            claimed = self._claim()
            if claimed is not None:
                self._see_through(claimed)
        finally:
            self._may_go = True
        if claimed is None:
            return False
        if not self._is_leaving and not self.is_lost:
            self._ring_for_more()
        return True

    def _close(self) -> None:
        """The night is over: the epoch ends, the worker stays. Never from a signal handler, which
        might wait for a lock that its own thread holds."""
        self._end_epoch(EndReason.NIGHT_ENDED)
        self._engine.stop_opening()

    def _end_epoch(self, reason: EndReason) -> None:
        """After its unit in flight, and at once where none is."""
        watch, media = self._watch, self._media
        if watch is not None:
            watch.leave(reason)
        if media is not None:
            media.kill()  # the loop may be waiting for the next second, which nobody wants

    def _see_through(self, claimed: Claimed) -> None:
        log.info("An epoch was claimed.", extra={"action": "claim", **claimed.key.log_context()})
        reason = EndReason.INTERNAL
        try:
            self._run(claimed)
        except DatabaseUnavailable as error:
            is_full = isinstance(error, StorageFull)
            reason = EndReason.STORAGE_FULL if is_full else EndReason.DATABASE_UNAVAILABLE
            log.warning(
                "The database was away for too long; an epoch's end waits for it.",
                extra={"action": "database_away", **claimed.key.log_context()},
            )
        finally:
            self._watch = None
            self._settle(claimed.key, reason)

    def _claim(self) -> Claimed | None:
        if not has_room(self._settings):
            return None
        try:
            return claims.claim(
                self._database,
                engine=self._engine.describe(),
                slot=slot_name(self._settings),
                host=self._settings.host_name,
                pid=os.getpid(),
                prompt=self._prompt,
                night=self._settings.window,
            )
        except SlotBusy:
            # An epoch of a process that is not yet gone; the dispatcher rings again after it.
            log.info("The slot is not free yet.", extra={"action": "slot_busy"})
            return None

    def _prompt(self, objective: str, holdings: Sequence[Holding]) -> str:
        """Raises ContextTooLong before any call into the engine."""
        text = prompt.system_text(objective, holdings)
        prompt.check_context(
            text, engine=self._engine.describe().name, folder=self._settings.model_folder
        )
        return text

    def _run(self, claimed: Claimed) -> None:
        options = replace(claimed.request.options, start_s=claimed.start_s)
        watch = Watch(
            claimed.key,
            SessionContext(
                epoch=claimed.key.number,
                prompt=claimed.prompt,
                holdings=claimed.holdings,
                options=options,
            ),
            engine=self._engine,
            database=self._database,
            frames=self._storage.frames,
            frame_ring=self._settings.frame_ring,
            before_release=lambda: self._publish(claimed.key),
        )
        self._watch = watch
        if self._is_leaving:
            self.leave()
        try:
            closes_in_s = claimed.closes_in_s if self._settings.night_hard_end else None
            events = self._events(claimed, watch)
            with ending_at_close(self._close, closes_in_s), closing(events):
                watch.run(events)
        except FenceLost:
            log.warning(
                "Somebody else ended an epoch.",
                extra={"action": "fence_lost", **claimed.key.log_context()},
            )

    def _events(self, claimed: Claimed, watch: Watch) -> Generator[MediaEvent, None, None]:
        """The media process lives inside the loop, so that its faults end the epoch too."""
        with (
            self._staged(claimed, watch) as path,
            MediaChild(
                path,
                limits=self._settings.media,
                longest_edge_px=claimed.request.options.frame_longest_edge_px,
                start_s=claimed.start_s,
                audio_stream=claimed.request.options.audio_stream,
                video_stream=claimed.request.options.video_stream,
                tells_coming=True,
            ) as media,
            self._media_told(media, watch),
        ):
            yield from media

    @contextmanager
    def _media_told(self, media: MediaChild, watch: Watch) -> Iterator[None]:
        """Within the block whoever ends the epoch ends the media process too."""
        self._media = media
        if watch.is_leaving:
            media.kill()
        try:
            yield
        finally:
            self._media = None

    @contextmanager
    def _staged(self, claimed: Claimed, watch: Watch) -> Iterator[Path]:
        """The recording as a local file, which may have to be brought here first."""
        stamped = time.monotonic()
        is_progress = False

        def pulse(has_come: bool) -> None:
            nonlocal stamped, is_progress
            if watch.is_leaving:
                raise MediaStopped("decode_error", LEFT_STAGING, last_source_ms=None)
            is_progress |= has_come
            if time.monotonic() - stamped > STAMP_S:
                if is_progress:
                    epochs.enter(self._database, claimed.key, Phase.PREPARE)
                stamped, is_progress = time.monotonic(), False
                if jobs.state_of(self._database, claimed.key.job_id) is JobState.CANCELING:
                    raise SessionStopped  # no unit is written yet that would tell the loop

        with ExitStack() as held:
            try:
                path = held.enter_context(
                    self._storage.blobs.local(claimed.recording.sha256, pulse=pulse)
                )
            except BlobMissing as error:
                raise RecordingRefused("recording_missing", MISSING_DETAIL) from error
            except BlobDamaged as error:
                raise RecordingRefused("recording_damaged", error.message) from error
            yield path

    def _settle(self, key: EpochKey, reason: EndReason) -> None:
        """Make sure that the epoch has ended and its slot is free, however long the database is
        away: the engine is reset, and this process takes nothing new before."""
        while True:
            try:
                jobs.give_up(self._database, key, end_reason=reason)
                if not self.is_lost:  # else its host releases it once this process is gone
                    epochs.release(self._database, key)
                return
            except DatabaseUnavailable:
                if self._is_leaving:
                    return  # a reaper ends it once this process is gone
                self._may_go = True
                time.sleep(SETTLE_PAUSE_S)

    def _publish(self, key: EpochKey) -> None:
        """While the slot is held, so that the watchdog ends a process that does not come back.

        The end is stored: who leaves, or is ended here, leaves the brief to a supervisor.
        """
        self._may_go = True
        if self._is_leaving:
            return
        try:
            epochs.enter(self._database, key, Phase.PUBLISH)
            publish(self._database, key.job_id, release=RELEASE)
        except (DatabaseUnavailable, FenceLost) as error:
            log.warning(
                "A brief waits for a supervisor.",
                extra={"action": "publish", "code": error.code, **key.log_context()},
            )

    def _ring_for_more(self) -> None:
        """One bell, one job: between two, the process can be told to go."""
        try:
            night = self._settings.window
            if claims.waiting(self._database, engine=self._settings.engine, night=night) > 0:
                ring(self._settings)
        except OmnaiError as error:
            log.warning("The queue was not looked at.", extra={"code": error.code})
