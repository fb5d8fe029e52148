"""Submissions: whole and queued, or not there at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.ledger import dossiers, recordings
from pipeline.ledger.database import Database
from pipeline.ledger.errors import LedgerRefused, RecordingNotStored, RecordingUnknown
from pipeline.records import JobState
from tests.pipeline.ledger.factories import (
    HOLDINGS,
    digest,
    make_holding,
    make_probe,
    make_request,
    rows,
    start,
)
from tests.pipeline.ledger.queued import submit, upload


def test_what_was_asked_is_what_is_kept(database: Database) -> None:
    dossier = dossiers.load(database, submit(database))
    assert dossier.state is JobState.QUEUED
    assert dossier.request == make_request()
    assert dossier.holdings == HOLDINGS
    assert dossier.portfolio_sha256 == digest("portfolio")
    assert dossier.recording.sha256 == digest("ana")
    assert dossier.recording.probe == make_probe()
    assert (dossier.epochs, dossier.ended_at, dossier.end_reason) == ((), None, None)


def test_the_engine_that_was_settled_on_is_what_the_queue_goes_by(database: Database) -> None:
    submit(database, request=make_request(engine="default"), engine="minicpmo")
    assert rows(database, "SELECT engine, next_epoch, owner FROM jobs") == [("minicpmo", 1, "ana")]


def test_a_refused_holding_leaves_no_job(database: Database) -> None:
    twice = (make_holding(), make_holding())
    with pytest.raises(LedgerRefused):
        submit(database, portfolio_holdings=twice)
    assert rows(database, "SELECT count(*) FROM jobs") == [(0,)]


def test_a_recording_that_has_gone_is_unknown(database: Database) -> None:
    gone = replace(upload(database), id="c56a4180-65aa-42ec-a945-5fd21dec0538")
    with pytest.raises(RecordingUnknown):
        submit(database, recording=gone)


def test_a_recording_that_no_worker_could_read_is_refused(database: Database) -> None:
    start(database)
    [(recording_id,)] = rows(database, "SELECT id::text FROM recordings")
    local = recordings.get(database, recording_id, owner="local")
    with pytest.raises(RecordingNotStored):
        submit(database, owner="local", recording=local)
    assert rows(database, "SELECT count(*) FROM jobs") == [(1,)]
