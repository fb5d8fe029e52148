"""Any order of what users, bells, workers and a reaper do, on PostgreSQL."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pipeline.errors import FenceLost
from pipeline.ledger import claims, epochs, jobs, reruns
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import RerunRefused, SlotBusy
from pipeline.ledger.reruns import RerunStart
from pipeline.records import EndReason, JobState
from tests.pipeline.ledger.factories import make_engine, record_unit, rows
from tests.pipeline.ledger.queued import submit

SLOTS = ("host/0", "host/1")

JOBS_MAX = 4

EDGES = {
    ("queued", "running"),
    ("queued", "canceled"),
    ("queued", "failed"),
    ("running", "finalizing"),
    ("running", "canceling"),
    ("running", "failed"),
    ("canceling", "canceled"),
    ("finalizing", "succeeded"),
    ("finalizing", "canceled"),
    ("finalizing", "failed"),
    ("succeeded", "queued"),
    ("failed", "queued"),
    ("canceled", "queued"),
}
"""The table of states, written out again from the design and not from the code."""

ENDED = ("succeeded", "failed", "canceled")

LONG = "OMNAI_TEST_LONG" in os.environ


@dataclass
class Process:
    """What a worker process believes; it dies with it."""

    key: EpochKey
    slot: str
    next_sequence: int = 0
    is_drained: bool = False


@dataclass
class Expected:
    """What must be in the database, whoever looks."""

    states: dict[str, str] = field(default_factory=dict)
    cancels: set[str] = field(default_factory=set)
    units: Counter[EpochKey] = field(default_factory=Counter)
    """Acknowledged ones."""
    fenced: set[EpochKey] = field(default_factory=set)
    holding: dict[str, EpochKey] = field(default_factory=dict)
    """Slot to the epoch that was not released."""
    asked_epochs: Counter[str] = field(default_factory=Counter)
    """Job to how many epochs somebody asked for."""


class Night(RuleBasedStateMachine):
    """Two worker slots, an API, a dispatcher and a reaper, one step at a time."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.expected = Expected()
        self.bells = 0
        self.running: dict[str, Process] = {}
        """Slot to its live process."""
        self.zombies: list[Process] = []
        """Processes that were stopped for too long, or outlived their epoch."""
        self.seen: dict[str, str] = {}

    @initialize()
    def empty(self) -> None:
        from pipeline.ledger.schema import Base

        with self.database.transaction() as session:
            for table in reversed(Base.metadata.sorted_tables):
                session.execute(table.delete())
        for _ in range(2):
            self.submit(rings=1)

    # --- the API

    @precondition(lambda self: len(self.expected.states) < JOBS_MAX)
    @rule(rings=st.integers(0, 2))
    def submit(self, rings: int) -> None:
        job_id = submit(self.database)
        self.expected.states[job_id] = "queued"
        self.expected.asked_epochs[job_id] = 1
        self.bells += rings

    @precondition(lambda self: self.expected.states)
    @rule(which=st.integers(0, JOBS_MAX - 1))
    def cancel(self, which: int) -> None:
        job_id = self._job(which)
        before = self.expected.states[job_id]
        told = jobs.request_cancel(self.database, job_id)
        after = {"queued": "canceled", "running": "canceling"}.get(before, before)
        if before not in ENDED:
            self.expected.cancels.add(job_id)
        if before == "queued":
            self.expected.asked_epochs[job_id] -= 1
        self.expected.states[job_id] = after
        assert told.value == after

    @precondition(lambda self: self.expected.states)
    @rule(which=st.integers(0, JOBS_MAX - 1), start=st.sampled_from([0, *RerunStart]))
    def rerun(self, which: int, start: RerunStart | int) -> None:
        job_id = self._job(which)
        if self.expected.states[job_id] not in ENDED:
            with pytest.raises(RerunRefused):
                reruns.request(self.database, job_id, start=start, reason="again", by="root")
            return
        reruns.request(self.database, job_id, start=start, reason="again", by="root")
        self.expected.states[job_id] = "queued"
        self.expected.cancels.discard(job_id)
        self.expected.asked_epochs[job_id] += 1

    # --- the bell and the dispatcher

    @precondition(lambda self: self.bells)
    @rule()
    def lose_bell(self) -> None:
        self.bells -= 1

    @rule()
    def dispatch(self) -> None:
        waiting = claims.waiting(self.database, engine="rehearsal")
        assert waiting == list(self.expected.states.values()).count("queued")
        self.bells += waiting > 0 and self.bells == 0

    @precondition(lambda self: self.bells)
    @rule(slot=st.sampled_from(SLOTS), units=st.integers(0, 3), is_repeated=st.booleans())
    def answer_bell(self, slot: str, units: int, is_repeated: bool) -> None:
        """Delivered, perhaps twice, to a slot that has no process at work; it may find nothing."""
        if slot in self.running:
            return
        self.bells -= not is_repeated
        self._claim(slot)
        for _ in range(units):
            self.unit(slot)

    def _claim(self, slot: str) -> None:
        def claim() -> claims.Claimed | None:
            return claims.claim(
                self.database,
                engine=make_engine(),
                slot=slot,
                host="host",
                pid=4711,
                prompt=lambda objective, holdings: objective,
            )

        queued = [id for id, state in self.expected.states.items() if state == "queued"]
        if queued and slot in self.expected.holding:
            with pytest.raises(SlotBusy):
                claim()
            return
        claimed = claim()
        assert (claimed is not None) == bool(queued)
        if claimed is not None:
            assert claimed.key.job_id == queued[0]  # of one priority: the oldest
            self.running[slot] = Process(key=claimed.key, slot=slot)
            self.expected.states[claimed.key.job_id] = "running"
            self.expected.holding[slot] = claimed.key

    # --- a worker process

    @precondition(lambda self: self.running)
    @rule(slot=st.sampled_from(SLOTS))
    def unit(self, slot: str) -> None:
        process = self.running.get(slot)
        if process is None or process.is_drained:
            return
        # Every other one again, as where a commit's outcome is not known.
        for _ in range(2 - process.next_sequence % 2):
            try:
                is_asked = record_unit(self.database, process.key, process.next_sequence)
            except FenceLost:
                assert process.key in self.expected.fenced
                self._outlive(process)
                return
            assert process.key not in self.expected.fenced
            assert is_asked == (process.key.job_id in self.expected.cancels)
        self.expected.units[process.key] += 1
        process.next_sequence += 1

    @precondition(lambda self: self.running)
    @rule(slot=st.sampled_from(SLOTS))
    def reach_end_of_source(self, slot: str) -> None:
        process = self.running.get(slot)
        if process is None or process.is_drained:
            return
        try:
            is_moved = jobs.move(
                self.database,
                process.key.job_id,
                source=JobState.RUNNING,
                target=JobState.FINALIZING,
                under=process.key,
            )
        except FenceLost:
            assert process.key in self.expected.fenced
            self._outlive(process)
            return
        assert process.key not in self.expected.fenced
        assert is_moved == (self.expected.states[process.key.job_id] == "running")
        if is_moved:
            self.expected.states[process.key.job_id] = "finalizing"
            process.is_drained = True

    @precondition(lambda self: self.running)
    @rule(slot=st.sampled_from(SLOTS), faults=st.booleans())
    def finish(self, slot: str, faults: bool) -> None:
        if not faults:
            self.reach_end_of_source(slot)
            self.jobs_move_along_the_edges_only()  # a step of its own
        process = self.running.get(slot)
        if process is None:
            return
        job_id = process.key.job_id
        is_whole = process.is_drained and not faults
        is_canceled = job_id in self.expected.cancels
        try:
            state = jobs.finish(
                self.database,
                process.key,
                outcome=JobState.SUCCEEDED if is_whole else JobState.FAILED,
                end_reason=EndReason.COMPLETED if is_whole else EndReason.ENGINE_ERROR,
            )
        except FenceLost:
            assert process.key in self.expected.fenced
            self._outlive(process)
            return
        assert process.key not in self.expected.fenced
        wanted = "canceled" if is_canceled else "succeeded" if is_whole else "failed"
        assert state.value == wanted
        self.expected.states[job_id] = wanted
        self.expected.fenced.add(process.key)
        del self.running[slot]
        epochs.release(self.database, process.key)
        del self.expected.holding[slot]

    @precondition(lambda self: self.running)
    @rule(slot=st.sampled_from(SLOTS))
    def crash(self, slot: str) -> None:
        """Nothing of it is left but its rows; the slot stays held until its host looks."""
        self.running.pop(slot, None)

    @precondition(lambda self: self.running)
    @rule(slot=st.sampled_from(SLOTS))
    def stall(self, slot: str) -> None:
        """Stopped for longer than anybody waits; it will wake up and try to write."""
        process = self.running.get(slot)
        if process is not None:
            self._give_up(process.key)

    @precondition(lambda self: self.zombies)
    @rule()
    def zombie_wakes(self) -> None:
        process = self.zombies.pop()
        with pytest.raises(FenceLost):
            record_unit(self.database, process.key, process.next_sequence)
        with pytest.raises(FenceLost):
            jobs.finish(
                self.database,
                process.key,
                outcome=JobState.FAILED,
                end_reason=EndReason.ENGINE_ERROR,
            )

    # --- the reaper

    @rule()
    def reap(self) -> None:
        """What no live process holds is given up, and its slot freed: its process is gone."""
        alive = {process.key for process in self.running.values()}
        for held in epochs.unreleased(self.database):
            if held.key in alive:
                continue
            self._give_up(held.key)
            assert epochs.release(self.database, held.key)
            del self.expected.holding[held.slot]

    def _give_up(self, key: EpochKey) -> None:
        state = jobs.give_up(self.database, key, end_reason=EndReason.WORKER_LOST)
        if key in self.expected.fenced:
            assert state is None
            return
        wanted = "canceled" if key.job_id in self.expected.cancels else "failed"
        assert state is not None
        assert state.value == wanted
        self.expected.states[key.job_id] = wanted
        self.expected.fenced.add(key)

    # --- what holds after every step

    @invariant()
    def the_database_says_what_happened(self) -> None:
        found = {
            row.id: row.state for row in rows(self.database, "SELECT id::text, state FROM jobs")
        }
        assert found == self.expected.states

    @invariant()
    def jobs_move_along_the_edges_only(self) -> None:
        for job_id, state in self.expected.states.items():
            before = self.seen.get(job_id, state)
            # A claim of a second epoch and all that follows it is another step.
            assert before == state or (before, state) in EDGES
        self.seen = dict(self.expected.states)

    @invariant()
    def every_acknowledged_unit_is_there_once(self) -> None:
        found = rows(
            self.database,
            "SELECT job_id::text AS job_id, epoch, count(*) AS units, min(sequence) AS first,"
            " max(sequence) AS last FROM units GROUP BY job_id, epoch",
        )
        told = {EpochKey(job_id=row.job_id, number=row.epoch): row for row in found}
        assert {key: row.units for key, row in told.items()} == dict(+self.expected.units)
        assert all((row.first, row.last) == (0, row.units - 1) for row in told.values())

    @invariant()
    def a_slot_holds_one_epoch_and_a_job_runs_under_one(self) -> None:
        found = rows(
            self.database,
            "SELECT job_id::text AS job_id, number, slot, fenced_at IS NOT NULL AS is_fenced,"
            " released_at IS NULL AS holds FROM epochs",
        )
        holding = {
            row.slot: EpochKey(job_id=row.job_id, number=row.number) for row in found if row.holds
        }
        assert holding == self.expected.holding
        assert len(holding) == sum(row.holds for row in found)
        live = Counter(row.job_id for row in found if not row.is_fenced)
        assert set(live.values()) <= {1}
        active = {id for id, s in self.expected.states.items() if s not in ("queued", *ENDED)}
        assert set(live) == active

    @invariant()
    def nothing_runs_again_unless_somebody_asked(self) -> None:
        found = rows(
            self.database,
            "SELECT job_id::text AS job_id, count(*) AS epochs, max(number) AS newest FROM epochs"
            " GROUP BY job_id",
        )
        for row in found:
            is_waiting = self.expected.states[row.job_id] == "queued"
            assert row.epochs + is_waiting == self.expected.asked_epochs[row.job_id]
            assert row.newest >= row.epochs

    def _job(self, which: int) -> str:
        ids = list(self.expected.states)
        return ids[which % len(ids)]

    def _outlive(self, process: Process) -> None:
        del self.running[process.slot]
        self.zombies.append(process)


def test_every_order_of_events_keeps_the_promises_of_the_queue(database: Database) -> None:
    Night.database = database
    run_state_machine_as_test(
        Night,
        settings=settings(
            max_examples=400 if LONG else 25,
            stateful_step_count=120 if LONG else 50,
            deadline=None,
            derandomize=not LONG,
            database=None,
            phases=[Phase.generate, Phase.shrink] if LONG else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
