"""Evidence and findings: replaced in place, never there twice, nothing named that is not there."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import make_url, text

from pipeline.errors import FenceLost
from pipeline.ledger import dossiers, epochs, texts
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import LedgerRefused, TextConflict
from pipeline.records import EndReason, Evidence, EvidenceKind, Interval
from tests.pipeline.ledger.factories import (
    cited,
    make_evidence,
    make_finding,
    make_frame,
    make_origin,
    record_unit,
    rows,
    start,
)

FRAMES = [make_frame(30), make_frame(10), make_frame(20)]
CITED = tuple(cited(frame) for frame in FRAMES)


def test_a_continuing_turn_updates_its_record(database: Database, key: EpochKey) -> None:
    early = make_finding(is_closed=False, origin=make_origin(frames=CITED))
    record_unit(database, key, 0, texts=[early], frames=FRAMES)
    late = make_finding(
        holding_ids=("h1",),
        unmatched=(),
        ambiguous=("SHRT",),
        uncertainty="None.",
        origin=make_origin(last_sequence=1, frames=(CITED[2], CITED[0])),
    )
    record_unit(database, key, 1, texts=[late])
    dossier = dossiers.load(database, key.job_id)
    assert dossier.findings == (late,)


def test_a_finding_takes_the_place_of_its_evidence(database: Database, key: EpochKey) -> None:
    origin = make_origin(frames=CITED)
    evidence = [make_evidence(origin=origin), make_evidence(block=1)]
    record_unit(database, key, 0, texts=evidence, frames=FRAMES)
    finding = make_finding(origin=make_origin(last_sequence=1))
    record_unit(database, key, 1, texts=[finding])
    dossier = dossiers.load(database, key.job_id)
    assert dossier.findings == (finding,)
    assert dossier.evidence == (make_evidence(block=1),)


def test_evidence_never_takes_the_place_of_a_finding(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0, texts=[make_finding()])
    with pytest.raises(TextConflict):
        record_unit(database, key, 1, texts=[make_evidence()])
    dossier = dossiers.load(database, key.job_id)
    assert (dossier.findings, dossier.evidence) == ((make_finding(),), ())
    assert len(dossier.units) == 1


def test_frames_and_holdings_keep_their_order_whatever_the_plan(database_url: str) -> None:
    name = make_url(database_url).database
    first = connect(database_url)
    for plan in ("indexscan", "bitmapscan", "indexonlyscan"):
        with first.transaction() as session:
            session.execute(text(f'ALTER DATABASE "{name}" SET enable_{plan} = off'))
    first.dispose()

    database = connect(database_url)
    key = start(database)
    origin = make_origin(frames=CITED)
    finding = make_finding(holding_ids=("h2", "cash", "h1"), origin=origin)
    record_unit(database, key, 0, texts=[finding], frames=FRAMES)
    # An updated row moves to the end of its table, so that the order on disk is not the right one.
    rows(database, "UPDATE finding_frames SET turn = turn WHERE position = 0 RETURNING 1")
    rows(database, "UPDATE finding_holdings SET turn = turn WHERE position = 0 RETURNING 1")
    assert dossiers.load(database, key.job_id).findings == (finding,)
    database.dispose()


@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        (
            make_finding(origin=make_origin(frames=(cited(make_frame(7)),))),
            "fk_finding_frames_job_id_epoch_frame_ms_frames",
        ),
        (
            make_evidence(origin=make_origin(frames=(cited(make_frame(7)),))),
            "fk_evidence_frames_job_id_epoch_frame_ms_frames",
        ),
        (
            make_finding(holding_ids=("nobody's",)),
            "fk_finding_holdings_job_id_holding_id_holdings",
        ),
        (
            make_evidence(origin=make_origin(last_sequence=9)),
            "fk_evidence_job_id_epoch_last_sequence_units",
        ),
        (
            make_evidence(origin=make_origin(first_sequence=1, last_sequence=0)),
            "ck_evidence_sequences_forward",
        ),
        (make_evidence(turn=-1), "ck_evidence_key_not_negative"),
    ],
)
def test_a_text_names_only_what_is_there(
    database: Database, key: EpochKey, given: Any, constraint: str
) -> None:
    with pytest.raises(LedgerRefused) as caught:
        record_unit(database, key, 0, texts=[given])
    assert caught.value.constraint == constraint


def test_one_still_at_two_times_keeps_both_times(database: Database, key: EpochKey) -> None:
    first, again = make_frame(10_000, jpeg=b"a slide"), make_frame(300_000, jpeg=b"a slide")
    assert first.sha256 == again.sha256
    early = make_finding(origin=make_origin(frames=(cited(first),)))
    late = make_finding(turn=1, origin=make_origin(last_sequence=1, frames=(cited(again),)))
    both = make_evidence(
        turn=2, origin=make_origin(last_sequence=1, frames=(cited(again), cited(first)))
    )
    record_unit(database, key, 0, texts=[early], frames=[first])
    record_unit(database, key, 1, texts=[late, both], frames=[again, first])
    dossier = dossiers.load(database, key.job_id)
    assert dossier.findings == (early, late)
    assert dossier.evidence == (both,)


def test_two_frames_of_one_millisecond_are_told_as_the_first(
    database: Database, key: EpochKey
) -> None:
    first, other = make_frame(40, jpeg=b"one"), make_frame(40, jpeg=b"other")
    record_unit(database, key, 0, frames=[first])
    late = make_finding(origin=make_origin(frames=(cited(other),)))
    record_unit(database, key, 1, texts=[late], frames=[other])
    [finding] = dossiers.load(database, key.job_id).findings
    assert finding.origin.frames == (cited(first),)


def test_a_frame_is_at_most_what_the_model_takes(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0, frames=[make_frame(jpeg=bytes(512_000))])
    with pytest.raises(LedgerRefused) as caught:
        record_unit(database, key, 1, frames=[make_frame(jpeg=bytes(512_001))])
    assert caught.value.constraint == "ck_frames_size_bytes_in_range"


def test_the_text_of_another_epoch_is_refused(database: Database, key: EpochKey) -> None:
    with pytest.raises(ValueError, match="epoch 2"):
        record_unit(database, key, 0, texts=[make_evidence(epoch=2)])
    assert rows(database, "SELECT count(*) FROM units") == [(0,)]


def test_a_turn_that_was_cut_off_is_kept_without_a_unit(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0)
    cut = make_evidence(kind=EvidenceKind.CUT, origin=make_origin(frames=CITED))
    texts.record(database, key, texts=[cut], frames=FRAMES)
    texts.record(database, key, texts=[cut], frames=FRAMES)
    assert dossiers.load(database, key.job_id).evidence == (cut,)


def test_a_turn_is_cut_off_after_the_last_unit_that_is_there(
    database: Database, key: EpochKey
) -> None:
    """The write of the unit that was answered last is what failed."""

    def cut(turn: int, last_sequence: int, **given: Any) -> Evidence:
        interval = Interval(start_ms=0, end_ms=1000 * last_sequence + 1000)
        origin = make_origin(generated_in=interval, last_sequence=last_sequence, **given)
        return make_evidence(turn=turn, kind=EvidenceKind.CUT, origin=origin)

    late = make_frame(2010)
    begun, all_new = cut(0, 2, frames=(cited(late), *CITED)), cut(1, 2, first_sequence=2)
    texts.record(database, key, texts=[begun, all_new], frames=[late, *FRAMES])
    assert dossiers.load(database, key.job_id).evidence == ()
    record_unit(database, key, 0)
    record_unit(database, key, 1)
    texts.record(database, key, texts=[begun, all_new], frames=[late, *FRAMES])
    assert dossiers.load(database, key.job_id).evidence == (cut(0, 1, frames=CITED),)


def test_a_zombie_keeps_no_cut_turn(database: Database, key: EpochKey) -> None:
    record_unit(database, key, 0)
    epochs.fence(database, key, end_reason=EndReason.WORKER_LOST)
    with pytest.raises(FenceLost):
        texts.record(database, key, texts=[make_evidence()])
    assert rows(database, "SELECT count(*) FROM evidence") == [(0,)]
