"""Counts: exact under a race, and never a reason for work to fail."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import text

from pipeline.ledger import tallies
from pipeline.ledger.database import Database, connect
from pipeline.ledger.tallies import Tally
from pipeline.records import EndReason
from tests.pipeline.ledger.factories import rows


def test_what_is_counted_by_many_at_once_is_all_counted(database: Database) -> None:
    name = tallies.given_up(EndReason.WORKER_LOST)
    tallies.add(database, Tally.EPOCHS_REAPED, 5)

    def count() -> None:
        for _ in range(20):
            tallies.add(database, name)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tallies.all(database) == {"epochs_given_up_worker_lost": 80, "epochs_reaped": 5}


def test_a_count_goes_with_its_transaction(database: Database) -> None:
    def broken_off() -> None:
        with database.transaction() as session:
            tallies.add(session, Tally.BELLS_FAILED)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        broken_off()
    assert tallies.all(database) == {}
    with database.transaction() as session:
        tallies.add(session, Tally.BELLS_FAILED)
    assert tallies.all(database) == {"bells_failed": 1}


def test_what_cannot_be_counted_fails_no_work(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = connect("postgresql+psycopg://nobody@127.0.0.1:1/none")
    tallies.add(away, Tally.BELLS_FAILED)
    away.dispose()
    with database.transaction() as session:
        session.execute(text("INSERT INTO tallies (name, count) VALUES ('epochs_reaped', 1)"))
        tallies.add(session, Tally.EPOCHS_REAPED, -2)  # the table refuses a count below none
    assert tallies.all(database) == {"epochs_reaped": 1}
    monkeypatch.setattr(tallies, "LOCK_TIMEOUT_MS", 50)
    with database.transaction() as session:
        session.execute(text("UPDATE tallies SET count = 2"))
        began = time.monotonic()
        tallies.add(database, Tally.EPOCHS_REAPED)  # somebody holds the row
        assert time.monotonic() - began < 10
    assert rows(database, "SELECT count FROM tallies") == [(2,)]
