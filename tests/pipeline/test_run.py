"""The loop on real PostgreSQL: what is stored when all goes well, and at every kind of end."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.errors import FenceLost, MediaStopped
from pipeline.ledger import dossiers, epochs, jobs, views
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import BlobsUnavailable, DatabaseUnavailable
from pipeline.ledger.frames import FolderFrames, FrameStore
from pipeline.records import (
    Dossier,
    EndReason,
    EvidenceKind,
    Frame,
    Gap,
    JobState,
    MediaEnd,
    MediaEvent,
    Options,
    Probe,
    RecordingRecord,
    Request,
)
from pipeline.run import LEFT_EARLY_DETAIL, Outcome, Progress, Watch
from tests import units
from tests.doubles import ScriptedEngine, block

PROBE = Probe(
    format="mp4",
    size_bytes=5,
    origin_ms=0,
    declared_duration_ms=3000,
    packet_end_ms=3000,
    streams=(),
)


def media_end(seconds: int) -> MediaEnd:
    return MediaEnd(
        source_end_ms=seconds * 1000,
        units=seconds,
        real_samples=seconds * 16_000,
        filled_samples=0,
        synthetic_samples=0,
        own_frames=seconds,
        held_frames=0,
        clipped_samples=0,
        replaced_samples=0,
        remarks=(),
    )


def recording(seconds: int) -> list[MediaEvent]:
    return [PROBE, *(units.unit(n) for n in range(seconds)), media_end(seconds)]


@dataclass
class Bench:
    """One job on a database of its own."""

    database: Database
    frames: FrameStore
    key: EpochKey

    def run(self, engine: ScriptedEngine, events: Iterable[MediaEvent]) -> Outcome:
        return self.watch(engine).run(events)

    def watch(
        self, engine: ScriptedEngine, on_progress: Callable[[Progress], None] = lambda at: None
    ) -> Watch:
        return Watch(
            self.key,
            units.context(),
            engine=engine,
            database=self.database,
            frames=self.frames,
            frame_ring=16,
            on_progress=on_progress,
        )

    def dossier(self) -> Dossier:
        return dossiers.load(self.database, self.key.job_id)

    def held_slots(self) -> int:
        return len(epochs.unreleased(self.database))


@pytest.fixture
def bench(database_url: str, tmp_path: Path) -> Iterator[Bench]:
    database = connect(database_url)
    key = jobs.start_local(
        database,
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
        engine=ScriptedEngine().describe(),
        prompt_sha256="1" * 64,
        slot="test",
        host="test",
        pid=os.getpid(),
    )
    yield Bench(database=database, frames=FolderFrames(tmp_path / "frames"), key=key)
    database.dispose()


def test_every_second_is_stored_with_what_it_completed(bench: Bench) -> None:
    told: list[Progress] = []
    engine = ScriptedEngine({1: block()[:40], 2: block()[40:] + ScriptedEngine.END})
    outcome = bench.watch(engine, told.append).run(recording(4))

    assert (outcome.state, outcome.end_reason) == (JobState.SUCCEEDED, EndReason.COMPLETED)
    assert outcome.units == 4
    dossier = bench.dossier()
    assert [unit.second for unit in dossier.units] == [0, 1, 2, 3]
    assert dossier.recording.probe == PROBE
    assert dossier.epochs[0].media_end == media_end(4)
    (finding,) = dossier.findings
    assert finding.holding_ids == ("H1",)
    assert (finding.origin.generated_in.start_ms, finding.origin.generated_in.end_ms) == (
        1000,
        3000,
    )
    assert [frame.source_ms for frame in finding.origin.frames] == [1000, 2000, 0]
    for frame in finding.origin.frames:
        assert hashlib.sha256(bench.frames.read(frame.sha256)).hexdigest() == frame.sha256
    assert [at.source_ms for at in told] == [1000, 2000, 3000, 4000]
    assert (told[-1].findings, told[-1].source_end_ms) == (1, 3000)
    assert bench.held_slots() == 0


def test_a_unit_is_committed_before_the_next_is_fed(bench: Bench) -> None:
    seen: list[int] = []
    engine = ScriptedEngine(
        before={n: lambda: seen.append(len(bench.dossier().units)) for n in range(4)}
    )
    bench.run(engine, recording(4))
    assert seen == [0, 1, 2, 3]


class SlowFrames(FolderFrames):
    """Takes longer for a frame than any part of a unit is asked to take at least."""

    def keep(self, frame: Frame) -> None:
        time.sleep(0.1)
        super().keep(frame)


def test_each_unit_tells_how_long_it_and_its_write_took(bench: Bench, tmp_path: Path) -> None:
    def told() -> list[tuple[float | None, float | None]]:
        found = views.units(bench.database, bench.key.job_id, epoch=1, limit=10)
        return [(view.ledger_ms, view.total_ms) for view in found]

    while_running: list[list[tuple[float | None, float | None]]] = []
    bench.frames = SlowFrames(tmp_path / "slow")
    engine = ScriptedEngine(
        {2: block()[:60], 3: block()[60:] + ScriptedEngine.END},
        before={1: lambda: time.sleep(0.2), 2: lambda: while_running.append(told())},
    )
    bench.run(engine, recording(3))

    [(first, second)] = while_running
    assert None not in first
    assert second == (None, None)
    (_, quiet, _, drained) = told()
    assert quiet[0] is not None
    assert quiet[1] is not None
    assert quiet[1] - quiet[0] >= 200
    # The finding is complete in the drain; its frame is written there.
    assert drained[0] is not None
    assert drained[1] is not None
    assert 100 <= drained[0] <= drained[1]


def test_an_epoch_that_breaks_off_tells_of_its_last_unit_too(bench: Bench) -> None:
    def events() -> Iterator[MediaEvent]:
        yield from recording(2)[:-1]
        raise MediaStopped("decoder_crashed", "it crashed", last_source_ms=2000)

    bench.run(ScriptedEngine(), events())
    found = views.units(bench.database, bench.key.job_id, epoch=1, limit=10)
    assert [view.total_ms is not None for view in found] == [True, True]


def test_a_gap_is_stored_and_sequences_go_on_without_a_hole(bench: Bench) -> None:
    gap = Gap(start_ms=1000, end_ms=100_000)
    bench.run(ScriptedEngine(), [PROBE, units.unit(0), gap, units.unit(100), media_end(101)])
    dossier = bench.dossier()
    assert [(unit.sequence, unit.second) for unit in dossier.units] == [(0, 0), (1, 100)]
    assert dossier.epochs[0].gaps == (gap,)


def test_the_drain_is_stored_at_the_source_end_and_completes_the_turn(bench: Bench) -> None:
    engine = ScriptedEngine({1: block()[:60], 2: block()[60:] + ScriptedEngine.END})
    bench.run(engine, recording(2))
    dossier = bench.dossier()
    drained = dossier.units[-1]
    assert (drained.second, drained.drain, drained.start_ms, drained.end_ms) == (
        None,
        1,
        2000,
        2000,
    )
    assert drained.synthetic_samples == 16_000
    assert dossier.findings[0].origin.generated_in.end_ms == 2000


def test_a_turn_still_open_after_the_drain_is_cut_evidence(bench: Bench) -> None:
    bench.run(ScriptedEngine(dict.fromkeys(range(1, 30), "and so on ")), recording(2))
    (evidence,) = bench.dossier().evidence
    assert evidence.kind is EvidenceKind.CUT
    session_end = bench.dossier().epochs[0].session_end
    assert session_end is not None
    assert session_end.is_utterance_open


def test_a_decoder_that_breaks_off_leaves_what_came_before(bench: Bench) -> None:
    def events() -> Iterator[MediaEvent]:
        yield from [PROBE, units.unit(0), units.unit(1)]
        raise MediaStopped("decoder_crashed", "the decoder crashed (SIGSEGV)", last_source_ms=2000)

    engine = ScriptedEngine({1: "Some words"})
    outcome = bench.run(engine, events())
    assert (outcome.state, outcome.end_reason) == (JobState.FAILED, EndReason.DECODE_ERROR)
    dossier = bench.dossier()
    assert len(dossier.units) == 2
    assert dossier.evidence[0].kind is EvidenceKind.CUT
    assert dossier.epochs[0].media_end is None
    assert engine.fed == [0, 1]
    assert (engine.resets, bench.held_slots()) == (1, 0)


def test_an_engine_error_fails_the_job_and_nothing_is_fed_again(bench: Bench) -> None:
    def fail() -> None:
        raise RuntimeError("device lost")

    engine = ScriptedEngine(before={1: fail})
    outcome = bench.run(engine, recording(3))
    assert (outcome.state, outcome.end_reason) == (JobState.FAILED, EndReason.ENGINE_ERROR)
    assert engine.fed == [0, 1]
    assert [unit.second for unit in bench.dossier().units] == [0]


def test_a_stop_ends_after_the_unit_in_flight_without_a_drain(bench: Bench) -> None:
    watch: Watch
    engine = ScriptedEngine({1: "never finished"}, before={2: lambda: watch.stop()})
    watch = bench.watch(engine)
    outcome = watch.run(recording(5))
    assert (outcome.state, outcome.end_reason) == (JobState.CANCELED, EndReason.CANCELED)
    assert engine.fed == [0, 1, 2]
    assert [unit.second for unit in bench.dossier().units] == [0, 1]
    assert bench.dossier().evidence[0].kind is EvidenceKind.CUT


def test_a_cancel_in_the_database_ends_within_one_unit_and_keeps_it(bench: Bench) -> None:
    engine = ScriptedEngine(
        before={1: lambda: (jobs.request_cancel(bench.database, bench.key.job_id), None)[1]}
    )
    outcome = bench.run(engine, recording(5))
    assert outcome.state is JobState.CANCELED
    assert engine.fed == [0, 1]
    assert [unit.second for unit in bench.dossier().units] == [0, 1]


def test_a_fenced_epoch_writes_nothing_more_and_stops_calling_the_engine(bench: Bench) -> None:
    def reap() -> None:
        jobs.give_up(bench.database, bench.key, end_reason=EndReason.WORKER_LOST)

    engine = ScriptedEngine(before={1: reap})
    with pytest.raises(FenceLost):
        bench.run(engine, recording(5))
    assert engine.fed == [0, 1]
    dossier = bench.dossier()
    assert [unit.second for unit in dossier.units] == [0]
    assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.FAILED, "worker_lost")
    assert bench.held_slots() == 0


def test_a_full_disk_for_frames_ends_the_job_as_storage_full(bench: Bench) -> None:
    class FullStore(FolderFrames):
        def keep(self, frame: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    bench.frames = FullStore(Path("unused"))
    engine = ScriptedEngine({1: block() + ScriptedEngine.END})
    outcome = bench.run(engine, recording(3))
    assert (outcome.state, outcome.end_reason) == (JobState.FAILED, EndReason.STORAGE_FULL)
    dossier = bench.dossier()
    assert [unit.second for unit in dossier.units] == [0]
    assert dossier.findings == ()


def test_a_short_outage_of_the_database_delays_a_unit_and_feeds_it_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.ledger import units as unit_rows

    record = unit_rows.record
    failures = iter([True, True, False])

    def flaky(*args: object, **named: object) -> bool:
        if next(failures, False):
            raise DatabaseUnavailable
        return record(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(unit_rows, "record", flaky)
    engine = ScriptedEngine()
    assert bench.run(engine, recording(2)).state is JobState.SUCCEEDED
    assert engine.fed == [0, 1]
    assert [unit.second for unit in bench.dossier().units] == [0, 1]


def test_a_fault_of_our_own_is_stored_before_it_is_raised(bench: Bench) -> None:
    def events() -> Iterator[MediaEvent]:
        yield PROBE
        yield units.unit(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.run(ScriptedEngine(), events())
    dossier = bench.dossier()
    assert (dossier.state, dossier.epochs[0].end_reason) == (JobState.FAILED, "internal")
    assert bench.held_slots() == 0


def test_leaving_commits_the_unit_in_flight_and_ends_with_its_reason(bench: Bench) -> None:
    watch: Watch
    engine = ScriptedEngine(
        {1: "never finished"}, before={2: lambda: watch.leave(EndReason.WORKER_SHUTDOWN)}
    )
    watch = bench.watch(engine)
    outcome = watch.run(recording(5))
    assert (outcome.state, outcome.end_reason) == (JobState.FAILED, EndReason.WORKER_SHUTDOWN)
    assert engine.fed == [0, 1, 2]
    dossier = bench.dossier()
    assert [unit.second for unit in dossier.units] == [0, 1, 2]
    assert dossier.evidence[0].kind is EvidenceKind.CUT
    assert dossier.epochs[0].end_reason == "worker_shutdown"
    assert bench.held_slots() == 0


def test_leaving_in_the_drain_ends_after_the_drain_unit_in_flight(bench: Bench) -> None:
    watch: Watch
    engine = ScriptedEngine(
        dict.fromkeys(range(1, 30), "and so on "),
        before={3: lambda: watch.leave(EndReason.WORKER_SHUTDOWN)},
    )
    watch = bench.watch(engine)
    outcome = watch.run(recording(2))
    assert outcome.end_reason is EndReason.WORKER_SHUTDOWN
    assert [(unit.second, unit.drain) for unit in bench.dossier().units] == [
        (0, None),
        (1, None),
        (None, 1),
        (None, 2),
    ]


def test_a_cancel_that_comes_before_leaving_stays_a_cancel(bench: Bench) -> None:
    watch: Watch

    def both() -> None:
        watch.leave(EndReason.WORKER_SHUTDOWN)
        watch.stop()

    engine = ScriptedEngine(before={1: both})
    watch = bench.watch(engine)
    assert watch.run(recording(5)).state is JobState.CANCELED
    assert engine.fed == [0, 1]


def test_a_decoder_that_was_told_to_go_with_the_worker_is_not_a_damaged_recording(
    bench: Bench,
) -> None:
    watch: Watch

    def events() -> Iterator[MediaEvent]:
        yield from [PROBE, units.unit(0)]
        watch.leave(EndReason.WORKER_SHUTDOWN)
        raise MediaStopped("decoder_crashed", "the decoder crashed (SIGTERM)", last_source_ms=1000)

    watch = bench.watch(ScriptedEngine())
    assert watch.run(events()).end_reason is EndReason.WORKER_SHUTDOWN


def test_leaving_before_the_first_unit_feeds_nothing(bench: Bench) -> None:
    engine = ScriptedEngine()
    watch = bench.watch(engine)
    watch.leave(EndReason.WORKER_SHUTDOWN)
    outcome = watch.run(recording(2))
    assert (outcome.units, outcome.end_detail) == (0, LEFT_EARLY_DETAIL)
    assert (engine.fed, engine.resets) == ([], 0)  # it was never opened


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), EndReason.STORAGE_FULL),
        (BlobsUnavailable(), EndReason.STORAGE_UNAVAILABLE),
    ],
    ids=["disk", "bucket"],
)
@pytest.mark.parametrize("last", [1, 2], ids=["inside a turn", "after the end"])
def test_frames_that_cannot_be_kept_end_the_job_under_their_own_name(
    bench: Bench, last: int, error: Exception, reason: EndReason
) -> None:
    class FullStore(FolderFrames):
        def keep(self, frame: object) -> None:
            raise error

    bench.frames = FullStore(Path("unused"))
    words = {0: "Look at this.\n\n"} | ({1: block() + "\n\nand more"} if last == 1 else {})
    outcome = bench.run(ScriptedEngine(words), recording(3))
    assert outcome.end_reason is reason
    cut = bench.dossier().evidence
    assert {text.kind for text in cut} == {EvidenceKind.CUT}
    assert all(text.origin.frames == () for text in cut)
    assert bench.held_slots() == 0
