"""The dossier equals what was written, and one view of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.engine import Engine

from pipeline.ledger import dossiers, epochs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.records import (
    EndReason,
    EvidenceKind,
    Gap,
    Holding,
    JobState,
    MediaEnd,
    Remark,
    SessionEnd,
)
from tests.pipeline.ledger.factories import (
    HOLDINGS,
    cited,
    digest,
    make_engine,
    make_evidence,
    make_finding,
    make_frame,
    make_origin,
    make_probe,
    make_recording,
    make_request,
    record_unit,
    rows,
    start,
)

MEDIA_END = MediaEnd(
    source_end_ms=2_740,
    units=3,
    real_samples=43_840,
    filled_samples=0,
    synthetic_samples=4_160,
    own_frames=2,
    held_frames=0,
    clipped_samples=1,
    replaced_samples=0,
    remarks=(Remark(code="decode_errors", message="Two packets.", count=2, start_ms=5),),
)


def test_a_whole_job_comes_back_as_it_was_written(database: Database, key: EpochKey) -> None:
    probe = make_probe()
    frames = [make_frame(10), make_frame(1_010)]
    shown = tuple(cited(frame) for frame in frames)
    findings = (
        make_finding(turn=0, block=1, origin=make_origin(frames=shown[:1])),
        make_finding(turn=1, origin=make_origin(last_sequence=1, frames=shown)),
    )
    evidence = (
        make_evidence(turn=0, block=0),
        make_evidence(turn=2, kind=EvidenceKind.CUT, origin=make_origin(last_sequence=2)),
    )
    gap = Gap(start_ms=1_000, end_ms=50_000)
    session_end = SessionEnd(is_audio_consumed=True, is_utterance_open=True)
    epochs.record_probe(database, key, probe)
    record_unit(database, key, 0, texts=[findings[0], evidence[0]], frames=[frames[0]])
    epochs.record_gap(database, key, gap)
    record_unit(database, key, 1, texts=[findings[1]], frames=[frames[1], make_frame(99)])
    record_unit(database, key, 2, texts=[evidence[1]])
    epochs.end(
        database,
        key,
        end_reason=EndReason.COMPLETED,
        end_detail="All of it.",
        media_end=MEDIA_END,
        session_end=session_end,
    )

    dossier = dossiers.load(database, key.job_id)
    assert dossier.job_id == key.job_id
    assert dossier.state is JobState.RUNNING
    assert dossier.ended_at is None
    assert dossier.request == make_request()
    assert dossier.holdings == HOLDINGS
    assert str(dossier.holdings[0].weight_pct) == "60.50"
    assert dossier.portfolio_sha256 == digest("portfolio")
    assert dossier.recording == replace(make_recording(), probe=probe)
    assert dossier.created_at.tzinfo is timezone.utc
    [epoch] = dossier.epochs
    assert (epoch.number, epoch.start_s, epoch.engine) == (1, 0, make_engine())
    assert epoch.prompt_sha256 == digest("prompt")
    assert epoch.ended_at is not None
    assert timedelta(0) <= epoch.ended_at - epoch.started_at < timedelta(minutes=1)
    assert (epoch.end_reason, epoch.end_detail) == ("completed", "All of it.")
    assert epoch.gaps == (gap,)
    assert (epoch.media_end, epoch.session_end) == (MEDIA_END, session_end)
    assert [unit.sequence for unit in dossier.units] == [0, 1, 2]
    assert dossier.findings == findings
    assert dossier.evidence == evidence


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
holdings = st.lists(
    st.builds(
        Holding,
        id=words,
        name=words,
        ticker=st.none() | words,
        exchange=st.none() | words,
        currency=words,
        asset_type=words,
        weight_pct=st.decimals(allow_nan=False, allow_infinity=False, min_value=-999, places=6),
        aliases=st.lists(words, max_size=3).map(tuple),
    ),
    unique_by=lambda holding: holding.id,
    max_size=5,
).map(tuple)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(holdings=holdings, objective=words, texts=st.lists(words, max_size=4))
def test_any_portfolio_and_any_text_come_back(
    database: Database, holdings: tuple[Holding, ...], objective: str, texts: list[str]
) -> None:
    rows(
        database,
        "UPDATE epochs SET fenced_at = now(), ended_at = now(), end_reason = 'x',"
        " released_at = now() WHERE released_at IS NULL RETURNING 1",
    )
    key = start(database, holdings=holdings, request=make_request(objective=objective))
    findings = tuple(
        make_finding(
            turn=turn,
            text=text,
            evidence=text,
            implication=text,
            unmatched=(text,),
            ambiguous=(text, text),
            holding_ids=tuple(holding.id for holding in holdings),
        )
        for turn, text in enumerate(texts)
    )
    record_unit(database, key, 0, texts=findings)
    dossier = dossiers.load(database, key.job_id)
    assert dossier.holdings == holdings
    assert dossier.request.objective == objective
    assert dossier.findings == findings


@pytest.mark.parametrize("weight", ["NaN", "Infinity", "-Infinity"])
def test_a_weight_that_is_no_number_is_refused(database: Database, weight: str) -> None:
    from pipeline.ledger.errors import LedgerRefused

    with pytest.raises(LedgerRefused) as caught:
        start(database, holdings=(replace(HOLDINGS[0], weight_pct=Decimal(weight)),))
    assert caught.value.constraint == "ck_holdings_weight_pct_finite"


def test_a_long_recording_takes_no_more_statements_than_a_short_one(
    database: Database, key: EpochKey
) -> None:
    statements: list[str] = []

    def count(*given: object) -> None:
        statements.append(str(given[2]))

    event.listen(Engine, "before_cursor_execute", count)
    try:
        counts = []
        for sequence in range(3):
            record_unit(database, key, sequence, texts=[make_finding(turn=sequence)])
            statements.clear()
            dossiers.load(database, key.job_id)
            counts.append(len(statements))
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    assert counts[0] == counts[1] == counts[2] <= 12
