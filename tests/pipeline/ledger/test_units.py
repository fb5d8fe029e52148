"""Units: one transaction each, fenced, once, in order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pipeline.errors import FenceLost
from pipeline.ledger import dossiers, epochs, jobs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import LedgerRefused, UnitConflict
from pipeline.records import Decision, EndReason, FedUnit
from tests.pipeline.ledger.factories import (
    CLOCKS,
    MOMENT,
    cited,
    digest,
    make_evidence,
    make_finding,
    make_frame,
    make_origin,
    make_reply,
    make_unit,
    record_unit,
    rows,
    start,
)

COUNTS = (
    "SELECT (SELECT count(*) FROM units), (SELECT count(*) FROM frames),"
    " (SELECT count(*) FROM evidence), (SELECT count(*) FROM findings)"
)


def test_a_unit_comes_back_as_it_was_fed(database: Database, key: EpochKey) -> None:
    frame = make_frame(210)
    reply = make_reply(decision=Decision.SPEAK, text="Hello", generation_id="g0", tokens=2)
    unit = make_unit(frame=frame)
    record_unit(database, key, unit=unit, reply=reply)
    [unit] = dossiers.load(database, key.job_id).units
    assert unit == FedUnit(
        epoch=1,
        sequence=0,
        second=0,
        drain=None,
        start_ms=0,
        end_ms=1000,
        real_samples=15_000,
        filled_samples=1_000,
        synthetic_samples=0,
        frame_ms=210,
        held_frame_ms=None,
        rms_dbfs=-23.5,
        decision=Decision.SPEAK,
        is_end_of_turn=False,
        inference_ms=12.5,
    )
    [row] = rows(database, "SELECT * FROM units")
    assert (row.text, row.generation_id, row.tokens, row.cached_tokens) == ("Hello", "g0", 2, 812)
    assert (row.decode_ms, row.queue_wait_ms, row.inference_ms) == (1.5, 0.25, 12.5)
    assert row.inference_started_at == row.inference_ended_at == row.emitted_at == MOMENT
    assert row.committed_at > MOMENT
    [epoch] = rows(database, "SELECT *, now() - progress_at < '5 s' AS is_fresh FROM epochs")
    assert (epoch.last_sequence, epoch.phase, epoch.is_fresh) == (0, "unit", True)


def test_a_held_picture_keeps_its_own_time(database: Database, key: EpochKey) -> None:
    held = make_unit(40, frame=make_frame(3_500), is_frame_held=True)
    record_unit(database, key, unit=held, rms_dbfs=None)
    [unit] = dossiers.load(database, key.job_id).units
    assert (unit.second, unit.frame_ms, unit.held_frame_ms) == (40, None, 3_500)
    assert unit.rms_dbfs is None


def test_a_drain_unit_takes_no_source_time(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0)
    for drain in (1, 2):
        reply = make_reply(drain, drain=drain)
        record_unit(database, key, unit=None, reply=reply, source_end_ms=740, rms_dbfs=None)
    units = dossiers.load(database, key.job_id).units
    assert [(unit.second, unit.drain, unit.sequence) for unit in units] == [
        (0, None, 0),
        (None, 1, 1),
        (None, 2, 2),
    ]
    assert (units[1].start_ms, units[1].end_ms, units[1].synthetic_samples) == (740, 740, 16_000)
    assert rows(database, "SELECT phase FROM epochs") == [("drain",)]


def test_a_zombie_epoch_writes_nothing(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0)
    before = rows(database, COUNTS)
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        record_unit(database, key, 1, texts=[make_finding(turn=0)], frames=[make_frame(1)])
    assert rows(database, COUNTS) == before


def test_a_fenced_repeat_is_a_lost_fence_and_not_a_unit_already_there(
    database: Database, key: EpochKey
) -> None:
    record_unit(database, key, 0)
    assert record_unit(database, key, 0) is False
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        record_unit(database, key, 0)


def test_the_same_unit_again_changes_nothing(database: Database, key: EpochKey) -> None:
    frame = make_frame(5)
    texts = [make_finding(origin=make_origin(frames=(cited(frame),)))]
    record_unit(database, key, 0, texts=texts, frames=[frame])
    first = rows(database, "SELECT *, xmin FROM units")
    dossier = dossiers.load(database, key.job_id)
    record_unit(database, key, 0, texts=texts, frames=[frame])
    assert rows(database, "SELECT *, xmin FROM units") == first
    assert dossiers.load(database, key.job_id) == dossier


def test_a_late_repeat_does_not_undo_what_came_after(database: Database, key: EpochKey) -> None:
    early = make_evidence(text="Margins")
    record_unit(database, key, 0, texts=[early])
    record_unit(database, key, 1, texts=[make_evidence(text="Margins fell.")])
    record_unit(database, key, 0, texts=[early])
    [evidence] = dossiers.load(database, key.job_id).evidence
    assert evidence.text == "Margins fell."
    assert rows(database, "SELECT last_sequence FROM epochs") == [(1,)]


@pytest.mark.parametrize(
    "changed",
    [
        {"payload_sha256": digest("other")},
        {"text": "other"},
        {"decision": Decision.SPEAK},
        {"generation_id": "other"},
    ],
)
def test_another_unit_under_the_same_sequence_is_a_conflict(
    database: Database, key: EpochKey, changed: dict[str, Any]
) -> None:
    record_unit(database, key, 0)
    with pytest.raises(UnitConflict, match="unit 0"):
        record_unit(database, key, 0, reply=make_reply(0, **changed))


@pytest.mark.parametrize("sequence", [1, 3])
def test_a_hole_in_the_sequence_is_refused(
    database: Database, key: EpochKey, sequence: int
) -> None:
    if sequence == 3:
        record_unit(database, key, 0)
    with pytest.raises(UnitConflict, match="out of order"):
        record_unit(database, key, sequence)


def test_a_second_is_fed_once_in_an_epoch(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0)
    with pytest.raises(LedgerRefused) as caught:
        record_unit(database, key, 1, unit=make_unit(0))
    assert caught.value.constraint == "uq_units_second"


@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        ({"unit": make_unit(real_samples=14_999)}, "samples_make_a_second"),
        ({"unit": make_unit(real_samples=-1, filled_samples=16_001)}, "samples_make_a_second"),
        ({"rms_dbfs": float("nan")}, "rms_dbfs_finite"),
        ({"rms_dbfs": float("-inf")}, "rms_dbfs_finite"),
        ({"unit": None}, "second_unless_drain"),
        ({"reply": make_reply(drain=1)}, "second_unless_drain"),
        ({"unit": None, "reply": make_reply(drain=9)}, "drain_in_range"),
        ({"reply": make_reply(payload_sha256="")}, "payload_sha256_is_a_digest"),
        ({"unit": make_unit(end_ms=-1)}, "interval_forward"),
    ],
)
def test_the_database_refuses_an_impossible_unit(
    database: Database, key: EpochKey, given: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(LedgerRefused) as caught:
        record_unit(database, key, **given)
    assert caught.value.constraint == f"ck_units_{constraint}"
    assert rows(database, COUNTS) == [(0, 0, 0, 0)]


def test_a_refused_text_takes_its_unit_with_it(database: Database, key: EpochKey) -> None:
    with pytest.raises(LedgerRefused):
        record_unit(
            database, key, texts=[make_finding(holding_ids=("nobody's",))], frames=[make_frame()]
        )
    assert rows(database, COUNTS) == [(0, 0, 0, 0)]
    assert rows(database, "SELECT last_sequence FROM epochs") == [(None,)]


def test_a_cancel_is_heard_with_the_next_unit_and_with_its_repeat(
    database: Database, key: EpochKey
) -> None:
    assert record_unit(database, key, 0) is False
    jobs.request_cancel(database, key.job_id)
    assert record_unit(database, key, 1) is True
    assert record_unit(database, key, 1) is True


def test_epochs_count_their_units_apart(database: Database, key: EpochKey) -> None:
    other = start(database, slot="host:1")
    record_unit(database, key, 0)
    record_unit(database, other, 0)
    record_unit(database, other, 1)
    assert len(dossiers.load(database, key.job_id).units) == 1
    assert len(dossiers.load(database, other.job_id).units) == 2


def test_a_time_without_a_zone_is_refused(database: Database, key: EpochKey) -> None:
    naive = datetime(2026, 9, 10)  # noqa: DTZ001 (what is to be refused)
    clocks = type(CLOCKS)(
        decode_ms=0,
        queue_wait_ms=0,
        inference_started_at=naive,
        inference_ended_at=MOMENT,
        emitted_at=MOMENT,
    )
    with pytest.raises(Exception, match="time zone"):
        record_unit(database, key, clocks=clocks)
    assert rows(database, COUNTS) == [(0, 0, 0, 0)]
