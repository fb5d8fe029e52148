"""Epochs: stamps, fences, releases."""

from __future__ import annotations

import uuid

import pytest

from pipeline.errors import FenceLost
from pipeline.ledger import dossiers, epochs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import EpochUnknown, LedgerRefused
from pipeline.records import EndReason, Gap, Phase
from tests.pipeline.ledger.factories import make_probe, rows, start


def test_stamps_come_from_the_databases_clock(database: Database, key: EpochKey) -> None:
    rows(database, "UPDATE epochs SET alive_at = 'epoch', progress_at = 'epoch' RETURNING 1")
    assert epochs.stamp_alive(database, key)
    [(alive, progress)] = rows(
        database, "SELECT now() - alive_at < '5 s', progress_at = 'epoch' FROM epochs"
    )
    assert (alive, progress) == (True, True)
    epochs.enter(database, key, Phase.PREPARE)
    assert rows(database, "SELECT now() - progress_at < '5 s', phase FROM epochs") == [
        (True, "prepare")
    ]


def test_a_fenced_epoch_still_shows_that_its_process_lives(
    database: Database, key: EpochKey
) -> None:
    epochs.fence(database, key, end_reason=EndReason.UNIT_TIMEOUT)
    rows(database, "UPDATE epochs SET alive_at = 'epoch' RETURNING 1")
    assert not epochs.stamp_alive(database, key)
    assert rows(database, "SELECT alive_at > 'epoch' FROM epochs") == [(True,)]


def test_a_released_epoch_is_not_stamped(database: Database, key: EpochKey) -> None:
    epochs.end(database, key, end_reason=EndReason.COMPLETED)
    epochs.release(database, key)
    rows(database, "UPDATE epochs SET alive_at = 'epoch' RETURNING 1")
    assert not epochs.stamp_alive(database, key)
    assert rows(database, "SELECT alive_at = 'epoch' FROM epochs") == [(True,)]
    with pytest.raises(FenceLost):
        epochs.enter(database, key, Phase.PUBLISH)


@pytest.mark.parametrize("phase", [Phase.CLAIM, Phase.PREPARE, Phase.UNIT, Phase.DRAIN])
def test_a_fenced_epoch_enters_nothing_but_publishing(
    database: Database, key: EpochKey, phase: Phase
) -> None:
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        epochs.enter(database, key, phase)
    epochs.enter(database, key, Phase.PUBLISH)


def test_only_the_first_fence_counts(database: Database, key: EpochKey) -> None:
    assert epochs.fence(database, key, end_reason=EndReason.UNIT_TIMEOUT)
    assert not epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        epochs.end(database, key, end_reason=EndReason.COMPLETED)
    assert rows(database, "SELECT end_reason FROM epochs") == [("unit_timeout",)]


def test_a_zombie_writes_nothing_about_the_source(database: Database, key: EpochKey) -> None:
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        epochs.record_probe(database, key, make_probe())
    with pytest.raises(FenceLost):
        epochs.record_gap(database, key, Gap(start_ms=1000, end_ms=60_000))
    dossier = dossiers.load(database, key.job_id)
    assert dossier.recording.probe is None
    assert dossier.epochs[0].gaps == ()


def test_a_gap_twice_is_one_gap_and_a_backward_one_is_refused(
    database: Database, key: EpochKey
) -> None:
    gap = Gap(start_ms=1000, end_ms=60_000)
    epochs.record_gap(database, key, gap)
    epochs.record_gap(database, key, gap)
    assert dossiers.load(database, key.job_id).epochs[0].gaps == (gap,)
    with pytest.raises(LedgerRefused) as caught:
        epochs.record_gap(database, key, Gap(start_ms=2000, end_ms=2000))
    assert caught.value.constraint == "ck_gaps_interval_forward"


def test_a_slot_is_freed_once_and_only_after_the_end(database: Database, key: EpochKey) -> None:
    with pytest.raises(LedgerRefused) as caught:
        epochs.release(database, key)
    assert caught.value.constraint == "ck_epochs_released_is_ended"
    epochs.end(database, key, end_reason=EndReason.COMPLETED)
    assert epochs.release(database, key)
    assert not epochs.release(database, key)


def test_a_host_finds_the_epochs_that_hold_its_slots(database: Database, key: EpochKey) -> None:
    other = start(database, slot="elsewhere:0", host="elsewhere", pid=1)
    done = start(database, slot="host:2")
    epochs.end(database, done, end_reason=EndReason.COMPLETED)
    epochs.release(database, done)
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    [mine] = epochs.unreleased(database, host="host")
    assert (mine.key, mine.slot, mine.pid, mine.is_fenced) == (key, "host:0", 4711, True)
    assert 0 <= (mine.now - mine.alive_at).total_seconds() < 60
    assert [found.key for found in epochs.unreleased(database)] == [key, other]
    assert [found.key for found in epochs.unreleased(database, slot="elsewhere:0")] == [other]


def test_an_unknown_epoch_is_not_a_lost_one(database: Database, key: EpochKey) -> None:
    for unknown in (
        EpochKey(job_id=key.job_id, number=2),
        EpochKey(job_id=str(uuid.uuid4()), number=1),
    ):
        with pytest.raises(EpochUnknown):
            epochs.enter(database, unknown, Phase.UNIT)
        assert not epochs.stamp_alive(database, unknown)
        assert not epochs.release(database, unknown)
