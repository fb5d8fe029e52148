"""Wherever the media process ends, hangs or swells, the loop keeps what came before and goes on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipeline.ledger import dossiers, epochs, jobs
from pipeline.ledger.database import Database, connect
from pipeline.ledger.frames import FolderFrames
from pipeline.media_child import MediaChild
from pipeline.records import EndReason, JobState, Options, RecordingRecord, Request
from pipeline.run import Outcome, Watch
from pipeline.settings import MediaLimits
from tests import units
from tests.clips import AAC, H264, Clips, clips
from tests.doubles import ScriptedEngine
from tests.pipeline.test_media_child import is_gone, linux_only, wait_for

__all__ = ["clips"]

pytestmark = linux_only

LIMITS = MediaLimits(duration_s=12)

ENDLESS = replace(LIMITS, scan_s=3.0, second_s=3.0)
"""Where it works and comes to nothing."""

HANGING = replace(LIMITS, silence_s=6.0)
"""Where it is still. Longer than starting a process takes on a busy machine."""


@dataclass(frozen=True, kw_only=True)
class End:
    """What must come of one place and one way to end there."""

    place: str
    how: str
    units: int
    says: str


ENDS = [
    End(place="start", how="segfault", units=0, says="SIGSEGV"),
    End(place="scan", how="killed", units=0, says="SIGKILL"),
    End(place="before probe", how="abort", units=0, says="SIGABRT"),
    End(place="in probe", how="bus error", units=0, says="SIGBUS"),
    End(place="after probe", how="segfault", units=0, says="SIGSEGV"),
    End(place="before unit 0", how="killed", units=0, says="SIGKILL"),
    End(place="in unit 0", how="segfault", units=0, says="SIGSEGV"),
    End(place="in unit 2", how="killed", units=2, says="SIGKILL"),
    End(place="after unit 2", how="segfault", units=3, says="SIGSEGV"),
    End(place="before end", how="killed", units=4, says="SIGKILL"),
    End(place="in end", how="segfault", units=4, says="SIGSEGV"),
    End(place="in pulse", how="killed", units=0, says="SIGKILL"),
    # It leaves of its own will, or closes its end and stays.
    End(place="after unit 1", how="exit", units=2, says="status 0"),
    End(place="after probe", how="closed", units=0, says="stopped making sense"),
    # It says what makes no sense, or more than there can be.
    End(place="twice unit 1", how="exit", units=2, says="stopped making sense"),
    End(place="twice probe", how="exit", units=0, says="stopped making sense"),
    End(place="on and on after unit 0", how="exit", units=14, says="than the 12 seconds"),
    # It hangs, or says that it is alive and comes to nothing.
    End(place="in unit 1", how="stopped", units=1, says="silent for 6 s"),
    End(place="pulsing in scan", how="exit", units=0, says="time stamps took more than 3 s"),
    End(place="pulsing after unit 1", how="exit", units=2, says="second took more than 3 s"),
    # It swells.
    End(place="after unit 0", how="memory bomb", units=1, says="more memory than allowed"),
    End(place="scan", how="memory bomb", units=0, says="more memory than allowed"),
]


class Worker:
    """One process over many jobs, as a worker is, on a database of its own."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self._folder = folder

    def run(self, media: MediaChild) -> tuple[Outcome, str]:
        engine = ScriptedEngine()
        key = jobs.start_local(
            self.database,
            recording=RecordingRecord(
                filename="call.mp4",
                sha256=hashlib.sha256(b"call").hexdigest(),
                size_bytes=5,
                probe=None,
            ),
            request=Request(
                objective="Look.", title=None, event_date=None, engine="scripted", options=Options()
            ),
            holdings=units.HOLDINGS,
            portfolio_sha256="0" * 64,
            engine=engine.describe(),
            prompt_sha256="1" * 64,
            slot="test",
            host="test",
            pid=os.getpid(),
        )
        watch = Watch(
            key,
            units.context(),
            engine=engine,
            database=self.database,
            frames=FolderFrames(self._folder),
            frame_ring=16,
        )
        with media:
            outcome = watch.run(media)
        assert not epochs.unreleased(self.database)
        return outcome, key.job_id

    def stored_seconds(self, job_id: str) -> list[int | None]:
        return [unit.second for unit in dossiers.load(self.database, job_id).units]


@pytest.fixture(scope="module")
def worker(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    database = connect(module_database_url)
    yield Worker(database, tmp_path_factory.mktemp("frames"))
    database.dispose()


def talk(clips: Clips) -> Path:
    return clips.encoded("four.mp4", 3.5, *H264, *AAC)


def halting(path: Path, place: str, how: str) -> MediaChild:
    class Halting(MediaChild):
        _program = ("tests.pipeline.halting", place, how)

    limits = LIMITS
    if place.startswith("pulsing"):
        limits = ENDLESS
    elif how == "stopped":
        limits = HANGING
    elif how == "memory bomb":
        limits = replace(LIMITS, memory_bytes=1024**3)
    return Halting(path, limits=limits, longest_edge_px=448, tells_coming=True)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"{end.place}, {end.how}")
def test_a_bad_end_is_a_clear_error_with_everything_before_it_kept(
    worker: Worker, clips: Clips, end: End
) -> None:
    media = halting(talk(clips), end.place, end.how)
    outcome, job_id = worker.run(media)
    assert (outcome.state, outcome.end_reason) == (JobState.FAILED, EndReason.DECODE_ERROR)
    assert outcome.end_detail is not None
    assert end.says in outcome.end_detail
    assert worker.stored_seconds(job_id) == list(range(end.units))
    wait_for(lambda: is_gone(media.pid))


def test_after_all_that_the_same_worker_watches_a_recording_to_its_end(
    worker: Worker, clips: Clips
) -> None:
    outcome, job_id = worker.run(MediaChild(talk(clips), limits=LIMITS, longest_edge_px=448))
    assert (outcome.state, outcome.end_reason) == (JobState.SUCCEEDED, EndReason.COMPLETED)
    assert worker.stored_seconds(job_id) == [0, 1, 2, 3]


def test_a_process_that_hangs_after_the_end_was_told_has_done_its_work(
    worker: Worker, clips: Clips
) -> None:
    media = halting(talk(clips), "after end", "stopped")
    outcome, _ = worker.run(media)
    assert outcome.state is JobState.SUCCEEDED
    wait_for(lambda: is_gone(media.pid))
