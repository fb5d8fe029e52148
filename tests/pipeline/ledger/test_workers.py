"""Worker rows: one a slot, its newest process's."""

from __future__ import annotations

from pipeline.ledger import workers
from pipeline.ledger.database import Database
from pipeline.ledger.schema.service import WORKER_STATES
from pipeline.ledger.workers import Worker, WorkerState
from tests.pipeline.ledger.factories import rows
from tests.pipeline.ledger.racing import held_at


def register(database: Database, slot: str = "host:0", pid: int = 4711) -> str:
    return workers.register(database, host="host", slot=slot, engine="rehearsal", pid=pid)


def only(database: Database) -> Worker:
    [worker] = workers.listed(database)
    return worker


def let_pass(database: Database) -> None:
    rows(database, "UPDATE workers SET alive_at = now() - interval '1 h' RETURNING 1")


def age_s(worker: Worker) -> float:
    return (worker.now - worker.alive_at).total_seconds()


def test_a_process_registers_while_it_loads(database: Database) -> None:
    worker_id = register(database)
    worker = only(database)
    assert (worker.id, worker.host, worker.slot) == (worker_id, "host", "host:0")
    assert (worker.engine, worker.pid, worker.state) == ("rehearsal", 4711, WorkerState.LOADING)


def test_a_stamp_says_that_it_lives(database: Database) -> None:
    worker_id = register(database)
    let_pass(database)
    assert age_s(only(database)) > 3000
    assert workers.stamp(database, worker_id)
    assert age_s(only(database)) < 60


def test_a_state_is_a_stamp_unless_it_is_gone(database: Database) -> None:
    worker_id = register(database)
    for state in (WorkerState.READY, WorkerState.LEAVING):
        let_pass(database)
        assert workers.set_state(database, worker_id, state)
        assert only(database).state is state
        assert age_s(only(database)) < 60
    let_pass(database)
    assert workers.set_state(database, worker_id, WorkerState.GONE)
    assert only(database).state is WorkerState.GONE
    assert age_s(only(database)) > 3000


def test_a_new_process_takes_the_row_and_the_old_one_is_told(database: Database) -> None:
    old = register(database)
    workers.set_state(database, old, WorkerState.READY)
    new = register(database, pid=4712)
    assert not workers.stamp(database, old)
    assert not workers.set_state(database, old, WorkerState.GONE)
    worker = only(database)
    assert (worker.id, worker.pid, worker.state) == (new, 4712, WorkerState.LOADING)


def test_slots_are_listed_in_order(database: Database) -> None:
    register(database, "host:1")
    register(database, "host:0")
    assert [worker.slot for worker in workers.listed(database)] == ["host:0", "host:1"]


def test_two_that_register_at_once_leave_one_row(database: Database) -> None:
    register(database)
    new = held_at(
        database,
        "SELECT 1 FROM workers FOR UPDATE",
        lambda: register(database, pid=1),
        lambda: register(database, pid=2),
    )
    assert only(database).id in new
    assert new[0] != new[1]


def test_the_states_are_those_that_the_table_accepts() -> None:
    assert tuple(state.value for state in WorkerState) == WORKER_STATES
