"""Hostile text: replaced where PostgreSQL cannot keep it, untouched everywhere else."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.ledger import dossiers
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey, end, record_probe, release
from pipeline.ledger.text import storable
from pipeline.records import EndReason, MediaEnd, Probe, Remark
from tests.pipeline.ledger.factories import (
    HOLDINGS,
    make_evidence,
    make_finding,
    make_holding,
    make_recording,
    make_reply,
    make_request,
    record_unit,
    rows,
    start,
)

any_text = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x00\ud800\udfff"))


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("a\x00b", "a\N{REPLACEMENT CHARACTER}b"),
        ("\x00", "\N{REPLACEMENT CHARACTER}"),
        ("\ud83d alone", "\N{REPLACEMENT CHARACTER} alone"),
        ("low \udc00", "low \N{REPLACEMENT CHARACTER}"),
        ("whole \N{GRINNING FACE}", "whole \N{GRINNING FACE}"),
        ("\x01\x1b[31m\u202e\ufeff\uffff'; DROP TABLE jobs; --\\", None),
        ("", None),
    ],
)
def test_only_what_cannot_be_kept_is_replaced(given_text: str, kept: str | None) -> None:
    assert storable(given_text) == (given_text if kept is None else kept)


@given(any_text)
def test_no_length_changes_and_the_rule_settles(text: str) -> None:
    kept = storable(text)
    assert len(kept) == len(text)
    assert storable(kept) == kept
    kept.encode()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=any_text)
def test_postgresql_gives_every_text_back(database: Database, text: str) -> None:
    request = make_request(objective=text, title=text)
    key = start(database, request=request, slot=f"slot {id(text)} {len(text)} {text}")
    end(database, key, end_reason=EndReason.INTERNAL, end_detail=text)
    release(database, key)
    dossier = dossiers.load(database, key.job_id)
    assert dossier.request.objective == storable(text)
    assert dossier.request.title == storable(text)
    assert dossier.epochs[0].end_detail == storable(text)


HOSTILE = "x\x00y\ud800z"
TAMED = "x\N{REPLACEMENT CHARACTER}y\N{REPLACEMENT CHARACTER}z"


def test_hostile_text_is_tamed_in_every_column_and_document(database: Database) -> None:
    key = start(
        database,
        recording=make_recording(filename=HOSTILE),
        request=make_request(objective=HOSTILE, title=HOSTILE),
        holdings=(make_holding(id=HOSTILE, name=HOSTILE, aliases=(HOSTILE, "b")), HOLDINGS[1]),
        slot=HOSTILE,
        host=HOSTILE,
    )
    probe = Probe(
        format=HOSTILE,
        size_bytes=1,
        origin_ms=0,
        declared_duration_ms=None,
        packet_end_ms=None,
        streams=(),
    )
    record_probe(database, key, probe)
    reply = make_reply(text=HOSTILE, generation_id=HOSTILE)
    finding = make_finding(holding_ids=(HOSTILE,), unmatched=(HOSTILE,), evidence=HOSTILE)
    texts = [finding, make_evidence(turn=1, text=HOSTILE)]
    record_unit(database, key, reply=reply, texts=texts)
    record_unit(database, key, reply=reply, texts=texts)
    end_with_remark(database, key)

    dossier = dossiers.load(database, key.job_id)
    assert dossier.recording.filename == TAMED
    assert dossier.recording.probe is not None
    assert dossier.recording.probe.format == TAMED
    assert dossier.holdings[0].id == TAMED
    assert dossier.holdings[0].aliases == (TAMED, "b")
    assert dossier.findings[0].holding_ids == (TAMED,)
    assert dossier.findings[0].unmatched == (TAMED,)
    assert dossier.findings[0].evidence == TAMED
    assert dossier.evidence[0].text == TAMED
    assert dossier.epochs[0].media_end is not None
    assert dossier.epochs[0].media_end.remarks[0].message == TAMED
    assert rows(database, "SELECT text, generation_id FROM units") == [(TAMED, TAMED)]


def end_with_remark(database: Database, key: EpochKey) -> None:
    media_end = MediaEnd(
        source_end_ms=1000,
        units=1,
        real_samples=16_000,
        filled_samples=0,
        synthetic_samples=0,
        own_frames=0,
        held_frames=0,
        clipped_samples=0,
        replaced_samples=0,
        remarks=(Remark(code="odd", message=HOSTILE),),
    )
    end(database, key, end_reason=EndReason.COMPLETED, media_end=media_end)
